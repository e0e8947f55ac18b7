// The tabs: links with a hash, so that a tab can be bookmarked and the back button works.

/** Shows the section that the hash names, and calls `shown` with its id, now and whenever the hash changes. */
export function tabs(links, shown) {
  let open;
  const show = () => {
    // The tab stays while the hash names none, as that of the link to the figures.
    if (!location.hash) open = null;
    open = links.find((link) => link.hash === location.hash) ?? open ?? links[0];
    for (const link of links) {
      document.getElementById(link.dataset.panel).hidden = link !== open;
      if (link === open) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    shown(open.dataset.panel);
  };
  addEventListener("hashchange", show);
  show();
}

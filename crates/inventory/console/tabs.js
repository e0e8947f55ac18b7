// The tabs: links with a hash, so that a tab can be bookmarked and the back button works.

/** Shows the section that the hash names, and calls `shown` with its id, now and whenever the hash changes. */
export function tabs(links, shown) {
  const show = () => {
    const wanted = links.find((link) => link.hash === location.hash) ?? links[0];
    for (const link of links) {
      document.getElementById(link.dataset.panel).hidden = link !== wanted;
      if (link === wanted) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    shown(wanted.dataset.panel);
  };
  addEventListener("hashchange", show);
  show();
}

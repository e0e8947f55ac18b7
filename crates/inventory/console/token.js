// The admin token that a link brings, as those of the demonstration do: #attacks?token=….

/** Where the page may come from. Elsewhere a link would be passed on, or stay in a history that others read. */
const HOSTS = ["127.0.0.1", "[::1]", "localhost"];

/** Whether the page is one that a link may bring a token to. */
export const isLocal = () => HOSTS.includes(location.hostname);

/** Takes the token out of the address, now and whenever it changes, and calls `use` with it on a host that may. */
export function takeToken(use) {
  const take = () => {
    const [tab, token] = location.hash.split("?token=");
    if (token === undefined) return;
    history.replaceState(null, "", tab);
    if (token && isLocal()) use(token);
  };
  addEventListener("hashchange", take);
  take();
}

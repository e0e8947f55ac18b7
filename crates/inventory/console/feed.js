// The stream of snapshots of all instances, and whether it is alive.

const LATE_MS = 3500;
/** A path that is dead says nothing, and closes nothing. */
const DEAD_MS = 15_000;
const AGAIN_MS = 5000;

/**
 * Listens while the page is seen: a browser has six connections to an instance for all its pages. `took` gets each time
 * what all instances say. `linked` gets the state of the link to this instance every second:
 * { state: "live" | "late" | "gone" | "refused", seconds }, where the seconds are those since the last snapshot.
 */
export function listen(took, linked) {
  let last = performance.now();
  let opened = last;
  let source = null;
  let refused = false;
  let isLive = false;

  const open = () => {
    source?.close();
    [opened, isLive] = [performance.now(), false];
    source = new EventSource("/console/fleet");
    source.onmessage = (event) => {
      [last, refused, isLive] = [performance.now(), false, true];
      took(JSON.parse(event.data));
      tell();
    };
    source.onerror = () => {
      // After an answer other than 200 the browser does not ask again by itself.
      [refused, isLive] = [source.readyState === EventSource.CLOSED, false];
      tell();
    };
  };

  const tell = () => {
    const passed = performance.now() - last;
    const state = refused ? "refused" : !isLive ? "gone" : passed > LATE_MS ? "late" : "live";
    linked({ state, seconds: passed / 1000 });
  };

  const turn = () => {
    source?.close();
    if (document.hidden) return;
    last = performance.now();
    open();
  };

  turn();
  document.addEventListener("visibilitychange", turn);
  setInterval(() => {
    if (document.hidden) return;
    const quiet = performance.now() - Math.max(last, opened);
    if (quiet > (refused ? AGAIN_MS : DEAD_MS)) open();
    tell();
  }, 1000);
}

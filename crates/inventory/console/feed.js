// The stream of snapshots of all instances, and whether it is alive.

const LATE_MS = 3500;
const AGAIN_MS = 5000;

/**
 * Listens for as long as the page is open. `took` gets each time what all instances say. `linked` gets the state of
 * the link to this instance every second: { state: "live" | "late" | "gone" | "refused", seconds }, where the seconds
 * are those since the last snapshot.
 */
export function listen(took, linked) {
  let last = performance.now();
  let source = null;
  let refused = false;
  let isLive = false;

  const open = () => {
    source = new EventSource("/console/fleet");
    source.onmessage = (event) => {
      [last, refused, isLive] = [performance.now(), false, true];
      took(JSON.parse(event.data));
      tell();
    };
    source.onerror = () => {
      isLive = false;
      // After an answer other than 200 the browser does not ask again by itself.
      if (source.readyState === EventSource.CLOSED) {
        refused = true;
        setTimeout(open, AGAIN_MS);
      }
      tell();
    };
  };

  const tell = () => {
    const passed = performance.now() - last;
    const state = refused ? "refused" : !isLive ? "gone" : passed > LATE_MS ? "late" : "live";
    linked({ state, seconds: passed / 1000 });
  };

  open();
  setInterval(tell, 1000);
}

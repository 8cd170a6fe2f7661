// once.js: runs a function at most once per task of the browser.

/** Returns a function. If this function is called once or more in a task, `act` runs once, after the task. */
export function oncePerTask(act) {
  let isPlanned = false;
  return () => {
    if (isPlanned) return;
    isPlanned = true;
    queueMicrotask(() => {
      isPlanned = false;
      act();
    });
  };
}

// SPDX-License-Identifier: Apache-2.0
// Work for idle moments, in slices too short to be felt: traversals, reconstructions.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  // A slice ends after so many milliseconds; the job that ran over it is one decoded image.
  const SLICE = 12;
  const LATEST = 250;
  const ask = window.requestIdleCallback
    ? (f) => window.requestIdleCallback(f, { timeout: LATEST })
    : (f) => window.setTimeout(f, 1);
  const cancel = window.requestIdleCallback ? window.cancelIdleCallback : window.clearTimeout;

  // Jobs by owner: an owner's new jobs take the place of its old ones.
  ui.idleWork = () => {
    const queues = new Map();
    let asked = null;

    function next() {
      for (const [owner, jobs] of queues) {
        if (jobs.length) return jobs.shift();
        queues.delete(owner);
      }
      return null;
    }

    function slice() {
      asked = null;
      const start = performance.now();
      for (let job = next(); job !== null; job = next()) {
        job();
        if (performance.now() - start > SLICE) break;
      }
      request();
    }

    function request() {
      if (asked === null && queues.size) asked = ask(slice);
    }

    return {
      replace(owner, jobs) {
        if (queues.has(owner)) queues.get(owner).splice(0, Infinity, ...jobs);
        else if (jobs.length) queues.set(owner, [...jobs]);
        request();
      },
      stop() {
        queues.clear();
        if (asked !== null) cancel(asked);
        asked = null;
      },
    };
  };
})();

// SPDX-License-Identifier: Apache-2.0
// Files that are dropped anywhere on the page or pasted: they go to the views that are shown. The
// page listens as long as it lives, since a browser leaves it for any file that nobody takes.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});
  const TEXT_FIELDS = "textarea, input[type=text], input[type=search], input:not([type])";
  const takers = new Set();

  // {shown() -> whether it can be seen, over(whether a file is held over the page), take(file)};
  // returns what ends it.
  ui.onFile = (taker) => {
    takers.add(taker);
    return () => takers.delete(taker);
  };

  const shown = () => [...takers].filter((taker) => taker.shown());
  const tellOver = (is) => takers.forEach((taker) => taker.over(is && taker.shown()));
  const inTextField = (event) => Boolean(event.target.closest?.(TEXT_FIELDS));
  const holdsFiles = (event) => event.dataTransfer.types.includes("Files");

  // Words may be dragged into a text field.
  const isWords = (event) => inTextField(event) && !holdsFiles(event);

  function dragged(event) {
    if (isWords(event)) return;
    event.preventDefault();
    if (holdsFiles(event) && shown().length) tellOver(true);
    else event.dataTransfer.dropEffect = "none";
  }

  function dropped(event) {
    if (isWords(event)) return;
    event.preventDefault();
    tellOver(false);
    give(event.dataTransfer.files[0]);
  }

  function pasted(event) {
    const file = event.clipboardData?.files[0];
    if (!file || inTextField(event) || !shown().length) return;
    event.preventDefault();
    give(file);
  }

  function give(file) {
    if (file) shown().forEach((taker) => taker.take(file));
  }

  document.addEventListener("dragover", dragged);
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) tellOver(false); // it left the window
  });
  document.addEventListener("drop", dropped);
  document.addEventListener("paste", pasted);
})();

// SPDX-License-Identifier: Apache-2.0
// Ways to choose the input of one model or of two: a sample, factors, an image of one's own.
(() => {
  "use strict";
  const unbraid = (window.unbraid ??= {});
  const ui = (unbraid.ui ??= {});

  function panel(name, title, content) {
    return ui.element("details", { class: `input-panel ${name}-panel`, open: true },
      ui.element("summary", {}, title), content);
  }

  // given(pixels, words, sample) takes the image (*sample* is its number, or null) and returns a
  // sentence about its code. Images come late: what was chosen last counts.
  ui.inputChoice = (area, context, given) => {
    const { samples, population } = context;
    const own = ui.ownImage(area, population.image, (pixels, words) => {
      factors?.forget();
      return given(pixels, words, null);
    });
    const factors = context.factorImage ? ui.factorSliders(context, {
      asked: () => own.forget(), given: (pixels, words) => given(pixels, words, null),
    }) : null;

    function sample(number) {
      own.forget();
      factors?.follow(samples.factors(number));
      return given(samples.pixels(number), `sample ${number}`, number);
    }

    function forget() {
      own.forget();
      factors?.forget();
    }

    return {
      sample, forget,
      random: () => sample(Math.floor(Math.random() * samples.count)),
      stop() {
        own.stop();
        factors?.forget();
      },
      element: ui.element("div", { class: "input-panels" },
        factors ? panel("factor", "Choose the factors", factors.element) : null,
        panel("own", "An image of your own", own.element)),
    };
  };
})();

/* Search under file://, where browsers refuse Worker: the worker's script runs in a hidden frame instead.
 * The theme's worker looks for `IFrameWorker` in its parent and then awaits importScripts(). */
(() => {
  "use strict";
  if (location.protocol !== "file:") return;

  const load = (win, url) =>
    new Promise((resolve, reject) => {
      const script = win.document.createElement("script");
      script.src = url;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${url}`));
      win.document.body.append(script);
    });

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      frame.srcdoc = "<!doctype html><title>search</title><body></body>";
      this.window = new Promise((resolve) => {
        frame.onload = async () => {
          const win = frame.contentWindow;
          win.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          win.importScripts = async (...urls) => {
            for (const each of urls) await load(win, each);
          };
          await load(win, new URL(url, location.href).href);
          resolve(win);
        };
      });
      document.body.append(frame);
    }

    async postMessage(data) {
      const win = await this.window;
      win.dispatchEvent(new win.MessageEvent("message", { data }));
    }

    terminate() {}
  }

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
})();

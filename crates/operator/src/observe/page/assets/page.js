// Replaces the sections of the page with the sections of a stream of server-sent events.
"use strict";
(() => {
  const status = document.getElementById("live");
  let source = null;
  let isPaused = false;
  let warning = 0;
  // Sections that wait until the user no longer selects text in them.
  const waiting = new Map();

  // The text changes only with the state, so that a screen reader does not announce each update.
  const show = (state, text) => {
    if (status.dataset.state !== state) {
      status.dataset.state = state;
      status.textContent = text;
    }
  };

  const hasSelection = (element) => {
    const selection = document.getSelection();
    return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
  };

  const focusKey = (element) => element.getAttribute("href") ?? element.getAttribute("aria-label");

  const replace = (id, html) => {
    const old = document.getElementById(id);
    const template = document.createElement("template");
    template.innerHTML = html;
    const next = template.content.firstElementChild;
    if (old === null && next !== null) {
      document.getElementById("content").append(next);
    }
    if (old !== null && hasSelection(old)) {
      waiting.set(id, html);
      return;
    }
    waiting.delete(id);
    if (old === null || next === null || old.outerHTML === next.outerHTML) {
      return;
    }
    const focused = old.contains(document.activeElement) ? focusKey(document.activeElement) : null;
    const scrolled = [...old.querySelectorAll(".scroll")].map((element) => element.scrollLeft);
    old.replaceWith(next);
    [...next.querySelectorAll(".scroll")].forEach((element, index) => {
      element.scrollLeft = scrolled[index] ?? 0;
    });
    if (focused !== null) {
      const again = [...next.querySelectorAll("a, .scroll")].find((element) => focusKey(element) === focused);
      again?.focus({ preventScroll: true });
    }
  };

  const close = () => {
    clearTimeout(warning);
    // The next stream begins with all sections.
    waiting.clear();
    source?.close();
    source = null;
  };

  const open = () => {
    if (isPaused || document.hidden || source !== null) {
      return;
    }
    source = new EventSource(location.pathname);
    source.addEventListener("open", () => {
      clearTimeout(warning);
      show("live", "Live");
    });
    source.addEventListener("section", (event) => {
      const end = event.data.indexOf("\n");
      replace(event.data.slice(0, end), event.data.slice(end + 1));
    });
    source.addEventListener("error", () => {
      clearTimeout(warning);
      if (source.readyState === EventSource.CLOSED) {
        close();
        show("stopped", "Updates stopped. Reload the page.");
      } else {
        warning = setTimeout(() => show("waiting", "Connecting again…"), 3000);
      }
    });
  };

  const button = document.createElement("button");
  button.type = "button";
  button.id = "pause";
  button.textContent = "Pause";
  button.addEventListener("click", () => {
    isPaused = !isPaused;
    button.textContent = isPaused ? "Resume" : "Pause";
    close();
    if (isPaused) {
      show("paused", "Paused");
    } else {
      open();
    }
  });
  status.after(button);

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      close();
    } else {
      open();
    }
  });
  // The server sends a section again only after its next change.
  document.addEventListener("selectionchange", () => {
    [...waiting].forEach(([id, html]) => replace(id, html));
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
})();

// Two conveniences; without this file the pages are complete.
document.addEventListener("DOMContentLoaded", () => {
  // A button in each block of code copies it.
  for (const block of document.querySelectorAll(".rst-content pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(block.querySelector("code").innerText);
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    block.parentElement.style.position = "relative";
    block.parentElement.append(button);
  }
  // The menu shows the section of this page; a click on another section's title opens it.
  for (const title of document.querySelectorAll(".wy-menu-vertical > p.caption")) {
    const list = title.nextElementSibling;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...title.childNodes);
    title.append(button);
    const show = (open) => {
      list.hidden = !open;
      button.setAttribute("aria-expanded", String(open));
    };
    button.addEventListener("click", () => show(list.hidden));
    show(list.querySelector(".current") !== null);
  }
});

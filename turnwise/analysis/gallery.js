(() => {
  const form = document.getElementById("filters");
  const tiles = [...document.querySelectorAll(".tile")];

  function wanted() {
    return [...new FormData(form)].filter(([, value]) => value !== "");
  }

  function show() {
    const all = wanted();
    let shown = 0;
    for (const tile of tiles) {
      const fits = all.every(([name, value]) => (value === "on" ? name in tile.dataset : tile.dataset[name] === value));
      tile.hidden = !fits;
      shown += fits;
    }
    document.getElementById("shown").textContent = `${shown} shown`;
    document.getElementById("none").hidden = shown > 0;
    history.replaceState(null, "", all.length ? `#${new URLSearchParams(all)}` : location.pathname + location.search);
  }

  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    const field = form.elements[name];
    if (field) field.type === "checkbox" ? (field.checked = true) : (field.value = value);
  }
  form.addEventListener("input", show);
  form.addEventListener("reset", () => setTimeout(show));
  form.addEventListener("submit", (event) => event.preventDefault());
  show();
})();

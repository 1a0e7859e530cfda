// Loaded before the page is drawn, so that it is not drawn in the wrong colours first.
const theme = localStorage.getItem("rainbow-theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

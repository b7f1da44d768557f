// Applies the person's theme before the first paint. A classic script of its own, because the page has no inline one.
const wish = (() => {
  try {
    return localStorage.getItem('svc.theme');
  } catch {
    return null;
  }
})();
if (wish === 'light' || wish === 'dark') document.documentElement.dataset.theme = wish;

'use strict';
// Without this script the page is whole: links lead to records, and a browser opens the one it is led to.
(() => {
  const tip = document.getElementById('tip');
  const show = (event) => {
    const at = event.target.closest && event.target.closest('[data-tip]');
    if (!at) { tip.hidden = true; return; }
    const box = at.getBoundingClientRect();
    tip.textContent = at.dataset.tip;
    tip.hidden = false;
    const left = Math.min(Math.max(8, box.left + box.width / 2 - tip.offsetWidth / 2), innerWidth - tip.offsetWidth - 8);
    const above = box.top - tip.offsetHeight - 8;
    tip.style.left = left + 'px';
    tip.style.top = (above < 8 ? box.bottom + 8 : above) + 'px';
  };
  document.addEventListener('mouseover', show);
  document.addEventListener('focusin', show);
  document.addEventListener('focusout', () => { tip.hidden = true; });
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') tip.hidden = true; });
  const open = () => {
    const at = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    document.querySelectorAll('details.at').forEach((other) => other.classList.remove('at'));
    if (at && at.tagName === 'DETAILS') { at.open = true; at.classList.add('at'); at.scrollIntoView({ block: 'start' }); }
  };
  addEventListener('hashchange', open);
  open();
})();

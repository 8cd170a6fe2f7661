// bell.js: a bell with the number of unread entries, which opens the list of entries, newest first.

// An emoji would need a font that has it.
const BELL = 'M8 1a4 4 0 0 0-4 4v3l-2 3v1h12v-1l-2-3V5a4 4 0 0 0-4-4zM6 13a2 2 0 0 0 4 0z';

/**
 * Shows an inbox in `element`. `list` is the live list of the user's rows, with id, text, created_at and read_at.
 * `read(last)` marks the entries up to the id `last` as read in the table. The list then changes on all devices of the user.
 */
export function showBell(element, list, read) {
  const id = `inbox-${Math.random().toString(36).slice(2)}`;
  element.innerHTML = `
    <button type="button" aria-expanded="false" aria-controls="${id}">
      <svg aria-hidden="true" width="16" height="16" viewBox="0 0 16 16" fill="currentColor"><path d="${BELL}"/></svg> <span class="unread" role="status"></span>
    </button>
    <div id="${id}" hidden>
      <button type="button" class="read">Mark all as read</button>
      <ol></ol>
      <p>No entries.</p>
    </div>`;
  const [bell, markRead] = element.querySelectorAll('button');
  const panel = element.querySelector('div');
  let newest = 0;

  function open(isOpen) {
    panel.hidden = !isOpen;
    bell.setAttribute('aria-expanded', String(isOpen));
  }
  bell.onclick = () => open(panel.hidden);
  element.onkeydown = (event) => {
    if (event.key !== 'Escape' || panel.hidden) return;
    open(false);
    bell.focus();
  };
  markRead.onclick = () => read(newest);

  return list.subscribe((rows) => {
    const entries = [...rows].sort((a, b) => b.id - a.id);
    const unread = entries.filter((entry) => entry.read_at === null).length;
    newest = entries[0]?.id ?? 0;
    bell.setAttribute('aria-label', `Inbox, ${unread} unread`);
    element.querySelector('.unread').textContent = unread || '';
    markRead.disabled = unread === 0;
    element.querySelector('p').hidden = entries.length > 0;
    element.querySelector('ol').replaceChildren(...entries.map(drawEntry));
  });
}

function drawEntry({ id, text, created_at: at, read_at: readAt }) {
  const item = document.createElement('li');
  item.dataset.entry = id;
  item.dataset.read = readAt !== null;
  const words = document.createElement(readAt === null ? 'strong' : 'span');
  words.textContent = text;
  const time = document.createElement('time');
  time.dateTime = at;
  time.textContent = new Date(at).toLocaleString();
  item.append(words, ' ', time);
  return item;
}

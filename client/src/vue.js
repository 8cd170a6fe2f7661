// vue.js: composables for Vue 3.3 or later.

import { shallowRef, toValue, watch } from 'vue';

/**
 * Opens client[method](source, options). Each argument may be a ref or a getter: a change of client, table, rule or
 * conditions opens a new list. The list closes when its component is unmounted. Returns the fields of `nothing`, which
 * are those of the list, as refs.
 */
function useList(method, nothing, client, source, options) {
  const fields = { ...nothing, loading: true, error: undefined };
  const refs = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, shallowRef(value)]));
  let list;

  function show() {
    for (const name of Object.keys(refs)) refs[name].value = (list ?? fields)[name];
  }

  function identityOf() {
    const { rule, where, order, limit } = toValue(options) ?? {};
    return [toValue(client), toValue(source), JSON.stringify([rule, where, order, limit])];
  }

  watch(identityOf, ([its, name], before, onCleanup) => {
    list = its?.[method](name, toValue(options));
    list?.subscribe(show);
    onCleanup(() => {
      list?.close();
      list = undefined;
      show();
    });
  }, { immediate: true });

  return { ...refs, reload: () => list?.reload(), loadMore: async (count) => list?.loadMore(count) ?? false };
}

/** Returns the rows of a live list, `more`, whether they are being loaded, and the error of the last load, as refs. */
export const useLive = (client, source, options) => useList('live', { rows: [], more: false }, client, source, options);

/** Returns the number of rows, see count(), whether it is being loaded, and the error of the last load, as refs. */
export function useCount(client, source, options) {
  const { value, loading, error, reload } = useList('count', { value: 0 }, client, source, options);
  return { value, loading, error, reload };
}

// vue.js: composable for Vue 3.3 or later.

import { shallowRef, toValue, watch } from 'vue';

/**
 * Returns the rows of a live list, whether they are being loaded, and the error of the last load, as refs. Each
 * argument may be a ref or a getter: a change of client, table or rule opens a new list. The list closes when its
 * component is unmounted.
 */
export function useLive(client, source, options) {
  const rows = shallowRef([]);
  const loading = shallowRef(true);
  const error = shallowRef();
  let list;

  function show() {
    rows.value = list?.rows ?? [];
    loading.value = list?.loading ?? true;
    error.value = list?.error;
  }

  watch(() => [toValue(client), toValue(source), toValue(options)?.rule], ([its, name], before, onCleanup) => {
    list = its?.live(name, toValue(options));
    list?.subscribe(show);
    onCleanup(() => {
      list?.close();
      list = undefined;
      show();
    });
  }, { immediate: true });

  return { rows, loading, error, reload: () => list?.reload() };
}

// list_options.js: validates the options of live() and count(). Part of rows.js, because index.js is small.

const NAMES = ['rule', 'where', 'order', 'limit', 'key', 'load'];
const COUNT_NAMES = ['rule', 'where'];
const SQL_NAMES = { filter: 'where', sort: 'order' }; // parameters of clairon.rows()

/** Returns the error for these options; undefined if they are valid. Undefined options are ignored. */
export function mistakeIn(how, isCount) {
  const names = isCount ? COUNT_NAMES : NAMES;
  const unknown = Object.keys(how).filter((name) => how[name] !== undefined && !names.includes(name));
  const described = unknown.map((name) => {
    const meant = SQL_NAMES[name];
    return names.includes(meant) ? `${name} (did you mean ${meant}?)` : name;
  });
  if (unknown.length) return `unknown option ${described.join(', ')}; valid: ${names.join(', ')}`;
  const { where, order, limit, load } = how;
  return load && (where || order || limit) ? 'load excludes where, order and limit' : undefined;
}

/** A list with invalid options has the error, and no rows. The import is not repeated. */
export function createInvalid({ show, report }, error) {
  show({ loading: false, error });
  report(error);
  return {
    handleChange() {},
    reload() {},
    close() {},
  };
}

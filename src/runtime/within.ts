// A deadline for waiting, such as for a resolver, or for the database during a scrape. The awaited work continues after the deadline,
// and its later rejection is ignored.
// Contract: decisions#operations.

/** Rejects when the promise takes longer than `ms`. */
export function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('no response in time')), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// The cache of loaded values, and which calls wait after a change of one value. Contract: neighbours#fair-shares.
import { expect, test } from 'bun:test';
import { LIMITS } from '../src/limits.ts';
import { Cache } from '../src/runtime/cache.ts';

const KEY = 'tenant';

/** A cache, and loads that end when the test says so. */
function given(): { cache: Cache<string>; load: () => Promise<string>; loads: PromiseWithResolvers<string>[] } {
  const loads: PromiseWithResolvers<string>[] = [];
  const load = (): Promise<string> => {
    const loading = Promise.withResolvers<string>();
    loads.push(loading);
    return loading.promise;
  };
  return { cache: new Cache<string>(10, () => true), load, loads };
}

const loaded = (value: string) => (): Promise<string> => Promise.resolve(value);
const unexpected = (): Promise<string> => Promise.reject(new Error('loaded again'));

/** A cache in which a value has been requested. */
async function givenUsed() {
  const made = given();
  await made.cache.get(KEY, loaded('before'));
  expect(made.cache.get(KEY, unexpected)).toBe('before');
  return made;
}

test('while a value is loaded again, the previous one is returned, and then the new one', async () => {
  const { cache, load, loads } = await givenUsed();
  const renewed = cache.renew(KEY, load);
  expect(cache.get(KEY, unexpected)).toBe('before');
  loads[0]?.resolve('after');
  await renewed;
  expect(cache.get(KEY, unexpected)).toBe('after');
});

test('a value that changes again while it is loaded is loaded once more, for all changes that come meanwhile', async () => {
  const { cache, load, loads } = await givenUsed();
  const renewals = [1, 2, 3].map(() => cache.renew(KEY, load));
  expect(loads).toHaveLength(1);
  loads[0]?.resolve('between');
  while (loads.length === 1) await null;
  expect(cache.get(KEY, unexpected)).toBe('before');
  loads[1]?.resolve('after');
  await Promise.all(renewals);
  expect(loads).toHaveLength(2);
  expect(cache.get(KEY, unexpected)).toBe('after');
});

test('a value that has not been requested since it was loaded is loaded again only on request', async () => {
  const { cache } = given();
  await cache.get(KEY, loaded('before'));
  await cache.renew(KEY, unexpected);
  expect(await cache.get(KEY, loaded('after'))).toBe('after');
});

test('a value dropped while it is loaded again stays dropped, and so does one whose load fails', async () => {
  const { cache, load, loads } = await givenUsed();
  const renewed = cache.renew(KEY, load);
  cache.drop(KEY);
  loads[0]?.resolve('between');
  await renewed;
  expect(await cache.get(KEY, loaded('after'))).toBe('after');
  expect(cache.get(KEY, unexpected)).toBe('after');
  await cache.renew(KEY, unexpected);
  expect(cache.peek(KEY)).toBeUndefined();
});

test('the value before is returned for as long as a revoked right may be, and no longer', async () => {
  const { cache, load, loads } = await givenUsed();
  const renewed = cache.renew(KEY, load);
  await Bun.sleep(LIMITS.cacheStaleMs + 20);
  expect(await cache.get(KEY, loaded('loaded by the call'))).toBe('loaded by the call');
  loads[0]?.resolve('late');
  await renewed;
  expect(cache.get(KEY, unexpected)).toBe('loaded by the call');
});

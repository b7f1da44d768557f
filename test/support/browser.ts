// Chromium for the tests of the console: started once for a test file, with one page, which each visit leaves empty. A
// visit fails on console errors, violations of the content security policy, uncaught errors and requests to another
// host; one that fails says what it showed and waited for. A machine without Chromium says so and leaves out these tests
// alone. `axe` reports what is serious or critical.
import { afterAll, test } from 'bun:test';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Browser, BrowserContext, BrowserContextOptions, Page, Request } from 'playwright-core';
import { newAddress } from './addresses.ts';
import { CHROMIUM, hasChromium, launch, sessionOf } from './launch.ts';

/** Far more than needed: the processes of a browser are slow on a busy machine. Milliseconds. */
const TEST_MS = 180_000;
const WAIT_MS = 45_000;

if (!hasChromium) console.warn(`no Chromium at ${CHROMIUM}: the tests of the console in a browser are left out`);

let started: Promise<Browser> | undefined;
afterAll(async () => {
  await (await started)?.close();
});

/** Launches it, and again when it has gone: the runner ends what a test that took too long has started. */
async function browser(): Promise<Browser> {
  started ??= launch();
  const launched = await started;
  if (launched.isConnected()) return launched;
  started = undefined;
  return browser();
}

let isSaid = false;

/** A test that needs Chromium. Without it a file has one test, which says that the others are left out. */
export function browserTest(title: string, run: () => Promise<void>): void {
  if (hasChromium) test(title, run, TEST_MS);
  else if (!isSaid) test('left out, because there is no Chromium', () => undefined);
  isSaid = true;
}

interface Options extends BrowserContextOptions {
  /** Texts of console errors that the test provokes. */
  expected?: readonly RegExp[];
}

export interface ConsolePage {
  page: Page;
  /** Everything that must not happen and did, so far. */
  problems: string[];
}

const WIDE = { width: 1280, height: 800 };

/** A page in a browser profile of its own. `expect(problems).toEqual([])` at the end, or use `visit`. */
export async function openPage(url: string, { expected = [], ...options }: Options = {}): Promise<ConsolePage> {
  const context = await (await browser()).newContext({ viewport: WIDE, baseURL: url, ...options });
  context.setDefaultTimeout(WAIT_MS);
  const problems: string[] = [];
  const note = (text: string): void => {
    if (!expected.some((pattern) => pattern.test(text))) problems.push(text);
  };
  await watch(context, new URL(url).host, note);
  return { page: await context.newPage(), problems };
}

/** Notes console errors, uncaught errors, violations of the policy and requests to other hosts. */
async function watch(context: BrowserContext, host: string, note: (text: string) => void): Promise<void> {
  context.on('console', (message) => {
    if (message.type() === 'error') note(`${message.text()} (${message.location().url})`);
  });
  context.on('weberror', (error) => note(String(error.error())));
  context.on('request', (request) => {
    const target = new URL(request.url());
    if (!HERE.includes(target.protocol) && target.host !== host) note(`a request to ${target.host}`);
  });
  await context.addInitScript(() => {
    document.addEventListener('securitypolicyviolation', (event) => {
      console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
}

const HERE = ['data:', 'blob:', 'about:'];

interface SharedPage {
  url: string;
  page: Page;
  note: (text: string) => void;
  /** Requests without an answer, and when they were made. */
  unanswered: Map<Request, number>;
}

/** The page that the visits of a file share: a page that has compiled the console's scripts shows it sooner. */
let shared: SharedPage | undefined;

async function sharedPage(url: string): Promise<SharedPage> {
  if (shared?.url === url && !shared.page.isClosed()) return shared;
  await shared?.page.context().close();
  const context = await (await browser()).newContext({ viewport: WIDE, baseURL: url });
  context.setDefaultTimeout(WAIT_MS);
  const unanswered = new Map<Request, number>();
  context.on('request', (request) => void unanswered.set(request, performance.now()));
  context.on('requestfinished', (request) => void unanswered.delete(request));
  context.on('requestfailed', (request) => void unanswered.delete(request));
  const made = { url, page: await context.newPage(), note: (_: string): void => undefined, unanswered };
  await watch(context, new URL(url).host, (text) => made.note(text));
  shared = made;
  return made;
}

interface Visit extends Pick<BrowserContextOptions, 'colorScheme' | 'reducedMotion'> {
  viewport?: { width: number; height: number };
  expected?: readonly RegExp[];
}

/** Runs with a page that nothing is left in of earlier visits; throws when something happened that must not. */
export async function visit(
  url: string,
  run: (page: Page) => Promise<void>,
  { expected = [], viewport = WIDE, colorScheme = 'light', reducedMotion = 'no-preference' }: Visit = {},
): Promise<void> {
  const visited = await sharedPage(url);
  const { page } = visited;
  const problems: string[] = [];
  visited.note = (text) => {
    if (!expected.some((pattern) => pattern.test(text))) problems.push(text);
  };
  try {
    // Sign-ins are counted by address, in stores that files share.
    await page.setExtraHTTPHeaders(newAddress());
    await page.emulateMedia({ colorScheme, reducedMotion });
    await page.setViewportSize(viewport);
    await run(page);
    await leave(page);
  } catch (error) {
    const now = performance.now();
    for (const [request, at] of visited.unanswered) {
      problems.push(`not answered after ${Math.round(now - at)} ms: ${request.method()} ${request.url()}`);
    }
    const shown = await page.locator('body').ariaSnapshot({ timeout: 5_000 }).catch(String);
    problems.push(`the page showed: ${shown.slice(0, 2_000)}`);
    shared = undefined;
    await page.context().close();
    throw new Error(`in the console:\n${problems.join('\n')}`, { cause: error });
  }
  if (problems.length > 0) throw new Error(`in the console:\n${problems.join('\n')}`);
}

/** Empties the page: its storage, what tests have put in its way, and its document. */
async function leave(page: Page): Promise<void> {
  await page.evaluate(() => {
    localStorage.clear();
    sessionStorage.clear();
  });
  for (const script of scripts.splice(0)) await script.dispose();
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  await page.goto('about:blank');
}

const scripts: { dispose(): Promise<void> }[] = [];

/** Runs a function in each document of the visit, before the console. */
export async function before<T>(page: Page, run: (argument: T) => void, argument: T): Promise<void> {
  scripts.push(await page.addInitScript(run as (argument: unknown) => void, argument));
}

/** Puts a session into the page before it loads, as if the person had signed in before. */
export async function signedIn(page: Page, key: string, tenant: string | null): Promise<void> {
  await before(page, ([name, value]) => sessionStorage.setItem(name, value), sessionOf(key, tenant));
}

const axeSource = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

interface AxeResult {
  violations: { id: string; impact: string | null; nodes: { html: string; failureSummary?: string }[] }[];
}

/** Rules whose result depends on the theme. */
const COLOURS = ['color-contrast', 'link-in-text-block'];

/** Resolves when all transitions have ended; a spinner never does. */
const SETTLED = `Promise.allSettled(document.getAnimations()
  .filter(({ effect }) => effect.getComputedTiming().endTime < Infinity).map(({ finished }) => finished))
  .then(() => undefined)`;

/** What axe finds serious or critical, one line each. Evaluated, because the policy admits no script element. */
export async function axe(page: Page, rules?: readonly string[]): Promise<string[]> {
  if (await page.evaluate(() => !('axe' in window))) await page.evaluate(axeSource);
  // Colours that are still changing into each other lack contrast for a moment.
  await page.evaluate(SETTLED);
  // Preloading is for rules about orientation and media, of which the console has none.
  const options = { resultTypes: ['violations'], preload: false, ...(rules && { runOnly: rules }) };
  const { violations } = (await page.evaluate(`axe.run(document, ${JSON.stringify(options)})`)) as AxeResult;
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary ?? ''}`));
}

export interface Looks {
  /** Where only its width is looked at. */
  alsoFits?: readonly number[];
}

/**
 * What is wrong with the page: what axe finds at these widths, and at the first of them in the dark theme, which differs
 * in colours alone; and how much wider the page is than the screen.
 */
export async function flaws(
  page: Page,
  widths: readonly number[] = [1440, 320],
  { alsoFits = [] }: Looks = {},
): Promise<string[]> {
  const found: string[] = [];
  const before = { size: page.viewportSize() ?? WIDE, isDark: await page.evaluate(isDark) };
  for (const width of alsoFits) {
    await page.setViewportSize({ width, height: 800 });
    found.push(...(await excess(page)).map((problem) => `${width} px: ${problem}`));
  }
  for (const [at, width] of widths.entries()) {
    await page.setViewportSize({ width, height: 800 });
    for (const colorScheme of at === 0 ? (['dark', 'light'] as const) : (['light'] as const)) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const problems = await excess(page);
      problems.push(...(await axe(page, colorScheme === 'light' ? undefined : COLOURS)));
      found.push(...problems.map((problem) => `${width} px, ${colorScheme}: ${problem}`));
    }
  }
  await page.setViewportSize(before.size);
  await page.emulateMedia({ colorScheme: before.isDark ? 'dark' : 'light' });
  return found;
}

/** Once it is laid out: how much it is wider than the screen. */
async function excess(page: Page): Promise<string[]> {
  const px = await page.evaluate(async () => {
    for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);
    return document.documentElement.scrollWidth - innerWidth;
  });
  return px > 0 ? [`${px} px too wide`] : [];
}

const isDark = (): boolean => matchMedia('(prefers-color-scheme: dark)').matches;

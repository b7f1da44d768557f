// The vertical position in a list that may be higher than a browser can scroll. The spacer has at most 8,000,000 px; the
// position is virtual: a step under two viewports moves as many pixels, a longer one maps by ratio, and at rest the thumb
// is put where it belongs. A row stands at `index * row + base`.
const MAX_PX = 8_000_000;
const REST_MS = 150;

export interface Window {
  first: number;
  last: number;
  /** Added to a row's own position. */
  base: number;
  /** The physical position, for rows that are kept mounted outside the window. */
  top: number;
}

export class VirtualScroll {
  #element: HTMLElement | null = null;
  #virtual = 0;
  #last = 0;
  #base = 0;
  #skipNext = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  total = 0;

  constructor(
    private readonly row: number,
    /** Pixels of the header, which covers the top of the viewport. */
    private readonly head: number,
    private readonly report: (window: Window, isResting: boolean) => void,
  ) {}

  get height(): number {
    return Math.min(this.total * this.row, MAX_PX);
  }

  attach(element: HTMLElement | null): void {
    this.#element?.removeEventListener('scroll', this.#onScroll);
    this.#element = element;
    element?.addEventListener('scroll', this.#onScroll, { passive: true });
    if (element !== null) this.refresh();
  }

  detach(): void {
    clearTimeout(this.#timer);
    this.attach(null);
  }

  setTotal(total: number): void {
    if (total === this.total) return;
    this.total = total;
    this.refresh();
  }

  /** Reports the window again, such as after a change of size. */
  refresh(): void {
    this.#virtual = Math.min(this.#virtual, this.#maxVirtual);
    this.report(this.#window(), true);
  }

  /** Brings a row into view. Returns whether it had to scroll. */
  show(index: number): void {
    const top = index * this.row;
    const view = this.#view;
    if (top < this.#virtual) this.#go(top);
    else if (top + this.row > this.#virtual + view) this.#go(top + this.row - view);
  }

  toTop(): void {
    this.#go(0);
  }

  /** Rows that fit. */
  get pageRows(): number {
    return Math.max(1, Math.floor(this.#view / this.row) - 1);
  }

  #go(virtual: number): void {
    this.#virtual = Math.max(0, Math.min(virtual, this.#maxVirtual));
    this.#settle();
  }

  get #view(): number {
    return Math.max(0, (this.#element?.clientHeight ?? 0) - this.head);
  }

  get #maxVirtual(): number {
    return Math.max(0, this.total * this.row - this.#view);
  }

  get #maxPhysical(): number {
    return Math.max(0, this.height - this.#view);
  }

  readonly #onScroll = (): void => {
    const element = this.#element;
    if (element === null) return;
    if (this.#skipNext) {
      this.#skipNext = false;
      if (Math.abs(element.scrollTop - this.#last) < 1) return;
    }
    const top = element.scrollTop;
    const step = top - this.#last;
    const max = this.#maxVirtual;
    if (top <= 0) this.#virtual = 0;
    else if (top >= this.#maxPhysical - 1) this.#virtual = max;
    else if (Math.abs(step) < 2 * this.#view) this.#virtual = Math.max(0, Math.min(this.#virtual + step, max));
    else this.#virtual = (top * max) / Math.max(1, this.#maxPhysical);
    this.#last = top;
    this.#base = top - this.#virtual;
    this.report(this.#window(), false);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(), REST_MS);
  };

  /** Puts the thumb where the position belongs; the scroll event that this causes is ignored. */
  #settle(): void {
    const element = this.#element;
    if (element === null) return;
    const max = this.#maxVirtual;
    const top = max === 0 ? 0 : Math.round((this.#virtual * this.#maxPhysical) / max);
    if (Math.abs(top - element.scrollTop) >= 1) {
      this.#skipNext = true;
      element.scrollTop = top;
    }
    this.#last = element.scrollTop;
    this.#base = this.#last - this.#virtual;
    this.report(this.#window(), true);
  }

  #window(): Window {
    const first = Math.max(0, Math.floor(this.#virtual / this.row));
    const last = Math.min(this.total - 1, Math.ceil((this.#virtual + this.#view) / this.row));
    return { first, last, base: this.#base, top: this.#last };
  }
}

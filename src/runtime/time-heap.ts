// Ids ordered by the time at which each is due: finds the earliest at once, and changes a time in logarithmic time. A binary heap that
// knows each id's position, so a time can change without leaving a stale entry behind.
// Times are numbers of any unit.

export class TimeHeap {
  readonly #ids: string[] = [];
  readonly #places = new Map<string, number>();
  readonly #times = new Map<string, number>();

  /** The id with the earliest time. */
  get first(): string | undefined {
    return this.#ids[0];
  }

  /** The earliest time; infinite when there is none. */
  get firstAt(): number {
    return this.#timeAt(0);
  }

  /** Adds an id, or changes its time. */
  set(id: string, at: number): void {
    const place = this.#places.get(id) ?? this.#ids.length;
    this.#times.set(id, at);
    this.#put(id, place);
    this.#rise(place);
    this.#sink(this.#places.get(id) as number);
  }

  delete(id: string): void {
    const place = this.#places.get(id);
    if (place === undefined) return;
    const last = this.#ids.pop() as string;
    this.#places.delete(id);
    this.#times.delete(id);
    if (last === id) return;
    this.#put(last, place);
    this.#rise(place);
    this.#sink(this.#places.get(last) as number);
  }

  #timeAt(place: number): number {
    const id = this.#ids[place];
    return id === undefined ? Number.POSITIVE_INFINITY : (this.#times.get(id) as number);
  }

  #put(id: string, place: number): void {
    this.#ids[place] = id;
    this.#places.set(id, place);
  }

  #rise(from: number): void {
    for (let place = from; place > 0; ) {
      const above = (place - 1) >> 1;
      if (this.#timeAt(above) <= this.#timeAt(place)) return;
      this.#swap(place, above);
      place = above;
    }
  }

  #sink(from: number): void {
    for (let place = from; ; ) {
      const [left, right] = [2 * place + 1, 2 * place + 2];
      const below = this.#timeAt(right) < this.#timeAt(left) ? right : left;
      if (this.#timeAt(below) >= this.#timeAt(place)) return;
      this.#swap(place, below);
      place = below;
    }
  }

  #swap(a: number, b: number): void {
    const [idA, idB] = [this.#ids[a] as string, this.#ids[b] as string];
    this.#put(idA, b);
    this.#put(idB, a);
  }
}

// Other platforms, for orientation: requests a second, measured side by side with a bare handler on one machine on an
// earlier day, each as its documentation says to run it. The factor is the bare handler's rate divided by theirs.
// The lists of Parse Server and Directus ask for their total; Parse Server's is an estimate.

export interface Peer {
  /** The row that does the same. */
  id: string;
  bare: number;
  parse: number;
  directus: number;
}

export const PEERS: readonly Peer[] = [
  { id: 'get', bare: 7_906, parse: 961, directus: 177 },
  { id: 'list', bare: 1_916, parse: 493, directus: 68 },
  { id: 'page', bare: 68, parse: 99, directus: 44 },
  { id: 'searchRare', bare: 1_851, parse: 460, directus: 1.6 },
  { id: 'searchCommon', bare: 43, parse: 60, directus: 3.2 },
  { id: 'create', bare: 2_876, parse: 484, directus: 93 },
  { id: 'update', bare: 3_934, parse: 396, directus: 85 },
  { id: 'delete', bare: 6_586, parse: 517, directus: 152 },
];

// What is listed stands in the link of the page, in the names of the API.
export const LINK = { filters: '', search: '', sort: '', cols: '', view: '', peek: '', new: '', transfer: '' };

export type Link = typeof LINK;

export type SetLink = (patch: Partial<{ [K in keyof Link]: string | null }>, options?: { replace?: boolean }) => void;

// Copy and paste in the grid, by the browser's own events, which need no permission. A small paste that fits is written
// at once; a larger one, or one of which something does not fit, is looked at first. Emptying cells is pasting nothing.
import type { ClipboardEvent } from 'react';
import { sayError, saySuccess } from '../parts/toast.tsx';
import { counted } from '../parts/value.ts';
import { type Paste, parseBlock, planPaste, printBlock, type Range } from './clipboard.ts';
import type { GridColumn } from './columns.ts';
import type { GridProps } from './grid.tsx';
import { countOf, isSelected } from './selection.ts';

/** Cells that are written without a question. */
const MOST_UNASKED = 20;

export interface PasteRequest {
  plan: Paste;
  write: () => Promise<void>;
}

interface Options extends GridProps {
  columns: readonly GridColumn[];
  /** The block, or the focused cell as one. */
  block: Range;
  isBlock: boolean;
  isEditing: boolean;
}

export function useClipboard(options: Options) {
  const { rows, columns, edits, block, isEditing } = options;
  const paste = async (text: string): Promise<void> => {
    if (!options.canEdit || block.rows[0] < 0) return;
    try {
      const plan = await planPaste(rows.query.tenant, parseBlock(text), block, rows, columns);
      const { changes, refused, beyond } = plan;
      const write = () => edits.write(changes, counted(changes.length, 'cell'));
      const isWhole = refused.length === 0 && beyond.rows <= 0 && beyond.columns <= 0;
      if (!isWhole || changes.length > MOST_UNASKED) options.onPaste({ plan, write });
      else if (changes.length > 0) await write();
    } catch (cause) {
      sayError({ title: 'Nothing was pasted.', description: (cause as Error).message });
    }
  };
  const onPaste = (event: ClipboardEvent): void => {
    if (isEditing) return;
    event.preventDefault();
    void paste(event.clipboardData.getData('text/plain'));
  };
  const onCopy = (event: ClipboardEvent): void => {
    if (isEditing || block.rows[0] < 0) return;
    event.preventDefault();
    event.clipboardData.setData('text/plain', copied(options));
  };
  return { paste, onPaste, onCopy };
}

/** The block of cells, or the selected rows, or the focused cell, as text; says what it leaves out. */
function copied({ rows, columns, selection, block, isBlock }: Options): string {
  const selected = countOf(selection, rows.total) ?? 0;
  const isRows = selected > 0 && !isBlock;
  const [first, last] = block.rows;
  const places = Array.from({ length: Math.min(last - first + 1, 100_000) }, (_, at) => rows.at(first + at));
  const chosen = isRows
    ? rows.loaded().filter(({ id }) => isSelected(selection, id))
    : places.flatMap((row) => row ?? []);
  const of = isRows ? columns : columns.slice(block.columns[0], block.columns[1] + 1);
  const missing = (isRows ? selected : last - first + 1) - chosen.length;
  const cut = chosen.reduce((sum, { id }) => sum + of.filter(({ key }) => rows.isCut(id, key)).length, 0);
  const left = [
    missing > 0 ? `${counted(missing, 'row')} skipped: not loaded. Export has all.` : '',
    cut > 0 ? `${counted(cut, 'long text')} shortened.` : '',
  ].filter(Boolean);
  const count = chosen.length * of.length;
  const title = `${counted(count, 'cell')} copied.`;
  if (left.length > 0) sayError({ title, description: left.join(' '), kind: 'copied' });
  else if (count > 1) saySuccess({ title, kind: 'copied' });
  return printBlock(chosen, of);
}

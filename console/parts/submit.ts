// A write of a form or a button: busy while it runs, so that a second click does nothing, and what it ended with.
import { useRef, useState } from 'react';
import { isAborted, problemsByField } from '../api/errors.ts';

interface Submission {
  busy: boolean;
  failure: unknown;
  /** The messages of the failure by field; empty without one. */
  problems: Record<string, string>;
  /** Runs the write; true when it succeeded. */
  submit: (write: () => Promise<unknown>) => Promise<boolean>;
}

export function useSubmit(): Submission {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<unknown>(null);
  const isRunning = useRef(false);
  const submit = async (write: () => Promise<unknown>): Promise<boolean> => {
    if (isRunning.current) return false;
    isRunning.current = true;
    setBusy(true);
    setFailure(null);
    try {
      await write();
      return true;
    } catch (cause) {
      if (!isAborted(cause)) setFailure(cause);
      return false;
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  };
  return { busy, failure, problems: problemsByField(failure), submit };
}

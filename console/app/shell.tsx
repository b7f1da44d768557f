// The console of a signed-in person: queries, router, messages, and the dialog after an expired session. Everything that
// was loaded is dropped when the session ends.
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { useEffect } from 'react';
import { queryClient } from '../api/queries.ts';
import { session } from '../api/session.ts';
import { Toasts } from '../parts/toast.tsx';
import { Expired } from './expired.tsx';
import { pageAt } from './pages.ts';
import { go, router, startPath } from './router.tsx';

export default function Shell() {
  useEffect(() => {
    // A link of another tenant than the one that the person belongs to leads nowhere.
    const linked = pageAt(location.pathname)?.params.tenant;
    const own = session.get()?.tenant;
    if (linked !== undefined && own && linked !== own) go(startPath(), { replace: true });
    return () => queryClient.clear();
  }, []);
  return (
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
      <Toasts />
      <Expired />
    </QueryClientProvider>
  );
}

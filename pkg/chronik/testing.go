package chronik

import "context"

// TB is the part of *testing.T and *testing.B that StartTest needs.
type TB interface {
	Helper()
	Cleanup(func())
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// StartTest starts a broker in memory that stops when the test ends; the test fails if the broker
// does not start, or stops with an error. Of several Options, the last applies.
func StartTest(t TB, options ...Options) *Broker {
	t.Helper()
	b, err := OpenMemory(t.Context(), last(options))
	return ends(t, b, err)
}

// StartTestIn is StartTest for a broker on a directory, such as t.TempDir().
func StartTestIn(t TB, dir string, options ...Options) *Broker {
	t.Helper()
	b, err := openDir(t.Context(), dir, fileInTests, unguarded(), last(options))
	return ends(t, b, err)
}

func last(options []Options) (o Options) {
	if n := len(options); n > 0 {
		o = options[n-1]
	}
	return o
}

func ends(t TB, b *Broker, err error) *Broker {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("chronik: close: %v", err)
		}
	})
	return b
}

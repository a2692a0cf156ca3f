package bench_test

import (
	"net"
	"slices"
	"testing"

	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/tools/bench"
	"github.com/chronik-io/chronik/pkg/chronik"
)

// The clients of a run are not given a broker that hangs: it accepts connections and answers none.
func TestABrokerThatHangsIsLeftOut(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer hung.Close()
	b := chronik.StartTest(t, chronik.Options{})
	got, err := bench.Reachable(t.Context(), []string{hung.Addr().String(), b.Addr(), "127.0.0.1:71"}, nil)
	if err != nil || !slices.Equal(got, []string{b.Addr(), "127.0.0.1:71"}) {
		t.Errorf("the brokers %v, error %v", got, err)
	}
}

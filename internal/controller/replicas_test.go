package controller

import "testing"

func TestDefaultReplicas(t *testing.T) {
	for _, c := range []struct{ wanted, seeds, takers, others, want int }{
		{3, 3, 3, 0, 3},
		{3, 3, 1, 0, 3}, // the others have not registered, and it is refused
		{5, 3, 3, 0, 5}, // as configured: it is refused
		{3, 3, 2, 1, 2},
		{3, 3, 1, 1, 2}, // one that holds logs has not registered
		{3, 3, 4, 1, 3},
		{3, 5, 3, 2, 3},
		{1, 3, 2, 1, 1},
		{3, 3, 0, 3, 1},
		{3, 3, 3, 1, 3}, // a fourth broker is drained
	} {
		if got := defaultReplicas(c.wanted, c.seeds, c.takers, c.others); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/exit"
	"github.com/chronik-io/chronik/internal/testing/must"
)

// If one address is taken, the start fails before anything else happens and closes the others.
func TestATakenAddressIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must.OK(t, err)
	defer l.Close()
	taken := l.Addr().String()
	for setting, cfg := range map[string]*config.Config{
		"listen (--listen)":             {Listeners: []config.Listener{{Name: "default", Listen: taken}}},
		"listeners: name two":           {Listeners: []config.Listener{{Name: "one", Listen: "127.0.0.1:0"}, {Name: "two", Listen: taken}}},
		"admin.listen (--admin-listen)": {Listeners: []config.Listener{{Name: "default", Listen: "127.0.0.1:0"}}, AdminListen: taken},
	} {
		_, err := bind(t.Context(), cfg, &kernel{}, nil)
		want := fmt.Sprintf(
			"cannot listen on %s: address already in use; another process listens there: stop it, or choose another address with %s",
			taken,
			setting,
		)
		if err == nil || err.Error() != want || exit.CodeOf(err) != exit.Address {
			t.Errorf("code %d, %v\nwant %s", exit.CodeOf(err), err, want)
		}
	}
}

func TestComponentsStopInReverseOrder(t *testing.T) {
	var order []string
	s := &stack{log: zap.NewNop()}
	for _, name := range []string{"disk", "broker", "clients"} {
		s.push(name, func(context.Context) error {
			order = append(order, name)
			if name == "broker" {
				return errors.New("broker would not")
			}
			return nil
		})
	}
	if err := s.unwind(t.Context(), stopTimes()); err == nil || err.Error() != "broker would not" {
		t.Errorf("got %v", err)
	}
	if strings.Join(order, " ") != "clients broker disk" {
		t.Errorf("order %v", order)
	}
	if err := s.unwind(t.Context(), stopTimes()); err != nil || len(order) != 3 {
		t.Error("a component was stopped twice")
	}
}

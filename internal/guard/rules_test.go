package guard

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/broker"
	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/coordinator/group"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/metadata/raftstore"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/testing/must"
	"github.com/chronik-io/chronik/internal/testing/solestore"
	"github.com/chronik-io/chronik/internal/vfs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rulesWorld is a metadata store with the rules that follow it.
type rulesWorld struct {
	t       *testing.T
	control *controller.Controller
	applier *metadata.Applier
	store   metadata.Store
	rules   func() *acl.Rules
}

func newRulesWorld(t *testing.T, s config.Security) *rulesWorld {
	t.Helper()
	fs := vfs.Memory()
	must.OK(t, vfs.MakeDir(fs, "/m"))
	store := solestore.Open(t, raftstore.Options{FS: fs, Dir: "/m", Log: zap.NewNop()})
	t.Cleanup(func() { _ = store.Close() })
	w := &rulesWorld{t: t, control: controller.New(controller.Options{Store: store}), store: store,
		applier: metadata.NewApplier(zap.NewNop())}
	w.rules = FollowRules(&s, zap.NewNop(), w.applier)
	return w
}

func (w *rulesWorld) start() {
	w.t.Helper()
	must.OK(w.t, w.applier.Start(context.Background(), w.store))
	w.t.Cleanup(w.applier.Stop)
}

func (w *rulesWorld) create(b acl.Binding) {
	w.t.Helper()
	_, revision, err := w.control.CreateACLs(context.Background(), []acl.Binding{b})
	if err == nil && w.applier.Done() != nil {
		err = w.applier.WaitFor(context.Background(), revision)
	}
	must.OK(w.t, err)
}

func (w *rulesWorld) may(principal string) bool {
	return w.rules().Subject(principal, "127.0.0.1").Allowed(acl.Read, acl.Topic, "orders")
}

func readOrders(permission acl.Permission) acl.Binding {
	return acl.Binding{Type: acl.Topic, Name: "orders", Pattern: acl.Literal, Principal: "User:bob", Host: "*", Operation: acl.Read,
		Permission: permission}
}

// A rule holds as soon as an Image shows it, and no longer than an Image shows it.
func TestAccessRulesFollowTheMetadata(t *testing.T) {
	w := newRulesWorld(t, config.Security{ACL: true, SuperUsers: []string{"User:admin"}})
	w.create(readOrders(acl.Allow))
	if w.may("User:bob") || !w.may("User:admin") {
		t.Error("before the metadata is read, somebody else than a super user may read")
	}
	w.start()
	if !w.may("User:bob") || w.may("User:eve") {
		t.Error("a rule of before the start does not hold")
	}
	w.create(readOrders(acl.Deny))
	if w.may("User:bob") {
		t.Error("a new rule does not hold")
	}
	_, revision, err := w.control.DeleteACLs(context.Background(), []acl.Filter{acl.AllBindings()})
	if err == nil {
		err = w.applier.WaitFor(context.Background(), revision)
	}
	if err != nil || w.may("User:bob") || w.rules().Len() != 0 {
		t.Errorf("deleted rules hold: %v", err)
	}
}

// What has no rule is open to everybody if the configuration says so, but not before the rules are
// known.
func TestUnknownRulesOpenNothing(t *testing.T) {
	w := newRulesWorld(t, config.Security{ACL: true, AllowEveryone: true})
	w.create(acl.Binding{Type: acl.Topic, Name: "secret", Pattern: acl.Literal, Principal: "User:bob", Host: "*", Operation: acl.Read,
		Permission: acl.Allow})
	if w.may("User:eve") {
		t.Error("everything is open while no rule is known")
	}
	w.start()
	if !w.may("User:eve") || w.rules().Subject("User:eve", "").Allowed(acl.Read, acl.Topic, "secret") {
		t.Error("everybody may read what has no rule, and nothing else")
	}
}

// A member of a group sees the topics that it may describe, by the rules of the moment.
func TestMembersSeeWhatTheyMayDescribe(t *testing.T) {
	w := newRulesWorld(t, config.Security{ACL: true})
	w.start()
	see := broker.Visible(w.rules)
	bob := group.Viewer{Principal: "User:bob", Host: "10.0.0.1"}
	if see(bob)("orders") {
		t.Error("bob sees a topic without a rule")
	}
	w.create(readOrders(acl.Allow))
	if !see(bob)("orders") || see(bob)("others") || see(group.Viewer{Principal: "User:eve"})("orders") {
		t.Error("bob alone may see orders, and nothing else")
	}
}

func TestWithoutAuthorizationThereAreNoRules(t *testing.T) {
	if w := newRulesWorld(t, config.Security{}); w.rules != nil || broker.Visible(nil) != nil {
		t.Error("rules without authorization")
	}
}

package daemon

import (
	"testing"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/guard"
)

// Where clients need rights, the admin port asks for its token on the broker's own machine, too.
func TestRightsMakeTheAdminPortPrivate(t *testing.T) {
	for _, acl := range []bool{false, true} {
		a := access(&config.Config{Security: config.Security{ACL: acl}}, nil, &guard.Certificates{})
		if a.Private != acl || a.PrivateSetting == "" || a.TokenSetting == "" {
			t.Errorf("authorization %v: %+v", acl, a)
		}
	}
}

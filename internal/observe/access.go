package observe

import (
	"maps"
	"slices"
	"strings"

	"github.com/chronik-io/chronik/internal/config"
	"github.com/chronik-io/chronik/internal/health/checks"
	"github.com/chronik-io/chronik/internal/login"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/security/files"
)

// Access returns the facts about users and rights.
func Access(cfg *config.Config, image func() *metadata.Image) checks.SlowSource {
	s := &cfg.Security
	stored := cfg.OnlyStoredUsers()
	return func(f *checks.Slow) {
		img := image()
		users := map[string]bool{}
		for u := range img.Users() {
			users[login.PrincipalType+u.Name] = true
		}
		if s.ACL {
			f.Access = accessOf(slices.Collect(img.ACLs()), users, s.SuperUsers, stored)
		}
		if text, _, err := files.ReadSecret(s.BootstrapUsers); s.BootstrapUsers != "" && err == nil {
			f.Access.Bootstrap = s.BootstrapUsers
			f.Access.NotAdded = missingUsers(string(text), img)
		}
	}
}

// accessOf finds what is odd about rules. stored: there are no other users than those given.
func accessOf(rules []acl.Binding, users map[string]bool, super []string, stored bool) (a checks.Access) {
	granted, named := map[string]bool{}, map[string]bool{}
	denies := map[string][]acl.Binding{}
	for _, b := range rules {
		named[b.Principal] = true
		if b.Permission == acl.Deny {
			denies[b.Principal] = append(denies[b.Principal], b)
		} else {
			granted[b.Principal] = true
		}
	}
	for _, b := range rules {
		if b.Permission != acl.Allow {
			continue
		}
		for _, d := range slices.Concat(denies[b.Principal], denies[acl.Everybody]) {
			if covers(&d, &b) {
				a.Shadowed = append(a.Shadowed, b.String()+" (by "+d.String()+")")
				break
			}
		}
	}
	for u := range users {
		if !granted[u] && !granted[acl.Everybody] && !slices.Contains(super, u) {
			a.WithoutRights = append(a.WithoutRights, u)
		}
	}
	if stored {
		for p := range maps.Keys(named) {
			if p != acl.Everybody && p != network.Anonymous && !users[p] {
				a.WithoutUser = append(a.WithoutUser, p)
			}
		}
		for _, p := range super {
			if !users[p] && p != network.Anonymous {
				a.SuperWithoutUser = append(a.SuperWithoutUser, p)
			}
		}
	}
	for _, list := range [][]string{a.Shadowed, a.WithoutRights, a.WithoutUser, a.SuperWithoutUser} {
		slices.Sort(list)
	}
	return a
}

// covers reports whether a binding that denies leaves nothing of one that allows, for a principal
// to whom both apply.
func covers(deny, allow *acl.Binding) bool {
	if deny.Type != allow.Type || deny.Host != acl.Wildcard && deny.Host != allow.Host ||
		deny.Operation != acl.All && deny.Operation != allow.Operation {
		return false
	}
	switch {
	case deny.Pattern == acl.Literal && deny.Name == acl.Wildcard:
		return true
	case deny.Pattern == acl.Literal:
		return allow.Pattern == acl.Literal && allow.Name == deny.Name
	}
	return strings.HasPrefix(allow.Name, deny.Name) && (allow.Pattern != acl.Literal || allow.Name != acl.Wildcard)
}

// missingUsers returns the users of a bootstrap file that do not exist, or have no password for the
// mechanism of their line.
func missingUsers(text string, img *metadata.Image) (missing []string) {
	for line, err := range login.UserLines(text) {
		if err == nil && img.User(line.Name).Credential(line.Mechanism) == nil {
			missing = append(missing, line.Who)
		}
	}
	return missing
}

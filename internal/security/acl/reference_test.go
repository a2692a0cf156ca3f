package acl

import "strings"

// allowed decides as Kafka's StandardAuthorizer does, by a loop over all bindings.
func allowed(bindings []Binding, o Options, principal, host string, op Operation, t ResourceType, name string) bool {
	for _, super := range o.SuperUsers {
		if super == principal {
			return true
		}
	}
	about, allow := false, false
	for _, b := range bindings {
		begins := b.Pattern == Prefixed && strings.HasPrefix(name, b.Name)
		if b.Type != t || !begins && (b.Pattern != Literal || b.Name != name && b.Name != "*") {
			continue
		}
		about = true
		if b.Principal != principal && b.Principal != "User:*" || b.Host != "*" && b.Host != host {
			continue
		}
		same := b.Operation == op || b.Operation == All
		switch {
		case b.Permission == Deny && same:
			return false
		case b.Permission == Allow && (same || implies(b.Operation, op)):
			allow = true
		}
	}
	return allow || o.AllowEveryone && !about
}

func implies(has, op Operation) bool {
	switch op {
	case Describe:
		return has == Read || has == Write || has == Delete || has == Alter
	case DescribeConfigs:
		return has == AlterConfigs
	}
	return false
}

// allowedAny decides as the default of Kafka's Authorizer.authorizeByResourceType does.
func allowedAny(bindings []Binding, o Options, principal, host string, op Operation, t ResourceType) bool {
	if allowed(bindings, o, principal, host, op, t, "hardcode") {
		return true
	}
	deny := map[Pattern]map[string]bool{Literal: {}, Prefixed: {}}
	for pass := range 3 {
		for _, b := range bindings {
			if b.Type != t || b.Principal != principal && b.Principal != "User:*" || b.Host != "*" && b.Host != host ||
				b.Operation != op && b.Operation != All {
				continue
			}
			wild := b.Pattern == Literal && b.Name == "*"
			switch {
			case pass == 0 && b.Permission == Deny && wild:
				return false
			case pass == 0 && b.Permission == Deny:
				deny[b.Pattern][b.Name] = true
			case pass == 1 && b.Permission == Allow && wild:
				return true
			case pass == 2 && b.Permission == Allow && !(b.Pattern == Literal && deny[Literal][b.Name]) &&
				!dominated(b.Name, deny[Prefixed]):
				return true
			}
		}
	}
	return false
}

func dominated(name string, prefixes map[string]bool) bool {
	for i := range len(name) {
		if prefixes[name[:i+1]] {
			return true
		}
	}
	return false
}

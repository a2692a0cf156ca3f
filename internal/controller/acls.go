package controller

import (
	"context"
	"fmt"
	"maps"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/sorts"
)

// maxFound bounds what the filters of one request select, all together.
const maxFound = 2 * MaxEntries

// CreateACLs stores the access rules that are valid. errs has an entry for each rule: nil, or the
// *Error that says why it was refused. A rule that exists already is no error. The revision shows
// the rules; it is 0 if all were refused. After err, the outcome is that of a failed transaction;
// see metadata.Store.
func (c *Controller) CreateACLs(ctx context.Context, rules []acl.Binding) (errs []error, revision int64, err error) {
	if err := checkAtOnce(len(rules), "creates", "ACLs"); err != nil {
		return nil, 0, err
	}
	errs = make([]error, len(rules))
	wanted := map[string]*acl.Binding{}
	for i := range rules {
		if why := rules[i].Check(); why != "" {
			errs[i] = refuse(InvalidRequest, "%s", why)
			continue
		}
		wanted[metadata.ACLKey(&rules[i])] = &rules[i]
	}
	if len(wanted) == 0 {
		return errs, 0, nil
	}
	err = c.retry(ctx, "create ACLs", func() error {
		existing, _, err := c.opts.Store.Range(ctx, metadata.ACLPrefix)
		if err != nil {
			return err
		}
		var txn metadata.Txn
		missing := maps.Clone(wanted)
		for _, kv := range existing {
			if wanted[kv.Key] != nil {
				txn.If = append(txn.If, unchanged(kv))
				delete(missing, kv.Key)
			}
		}
		err = checkEntries(len(existing), len(existing)+len(missing), "ACLs", "Allow a prefix of names instead of each name.")
		if err != nil {
			return err
		}
		for key, a := range missing {
			txn.If = append(txn.If, metadata.Compare{Key: key})
			txn.Put = append(txn.Put, metadata.KV{Key: key, Value: metadata.EncodeACL(a)})
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return errs, revision, err
}

// DeletedACLs is the result of a filter in DeleteACLs.
type DeletedACLs struct {
	Rules []acl.Binding // sorted; those that several filters select are in the result of each
	Err   error         // *Error: the filter was refused
}

// DeleteACLs deletes the access rules that any of the filters selects, all at once. The revision
// does not show them.
func (c *Controller) DeleteACLs(ctx context.Context, filters []acl.Filter) (results []DeletedACLs, revision int64, err error) {
	if err := checkAtOnce(len(filters), "has", "filters"); err != nil {
		return nil, 0, err
	}
	if err := c.catchUp(ctx); err != nil { // no condition can name a rule that is not seen
		return nil, 0, fmt.Errorf("delete ACLs: %w", err)
	}
	err = c.retry(ctx, "delete ACLs", func() error {
		results = make([]DeletedACLs, len(filters))
		existing, _, err := c.opts.Store.Range(ctx, metadata.ACLPrefix)
		if err != nil {
			return err
		}
		rules := make([]acl.Binding, len(existing))
		for i, kv := range existing {
			if rules[i], err = metadata.DecodeACL(kv); err != nil {
				return err
			}
		}
		var txn metadata.Txn
		found := 0
		selected := make([]bool, len(rules))
		for f := range filters {
			if why := filters[f].Unknown(); why != "" {
				results[f].Err = refuse(InvalidRequest, "%s", why)
				continue
			}
			for i := range rules {
				if !filters[f].Matches(&rules[i]) {
					continue
				}
				results[f].Rules = append(results[f].Rules, rules[i])
				if found++; found > maxFound {
					return refuse(InvalidRequest, "The filters select more than %d ACLs; those that several filters select count for each.",
						maxFound)
				}
				if !selected[i] {
					selected[i] = true
					txn.If = append(txn.If, unchanged(existing[i]))
					txn.Delete = append(txn.Delete, existing[i].Key)
				}
			}
			sorts.Sort(results[f].Rules, acl.Compare)
		}
		revision, err = c.opts.Store.Txn(ctx, txn)
		return err
	})
	return results, revision, err
}

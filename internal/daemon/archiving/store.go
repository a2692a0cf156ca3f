package archiving

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.uber.org/zap"

	"github.com/chronik-io/chronik/internal/archive/access"
	"github.com/chronik-io/chronik/internal/archive/format"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/objects"
)

// marks knows the object store of the cluster by its mark: an object that the metadata name. The
// broker that puts the first object puts the mark before.
type marks struct {
	url    string
	prefix string // of the names of the cluster's objects
	image  func() *metadata.Image
	// applied waits until image shows a revision.
	applied func(ctx context.Context, revision int64) error
	name    func(ctx context.Context, x metadata.ObjectStore) (revision int64, err error) // controller.NameStore
	log     *zap.Logger
}

// opener returns what opens the object store for something that puts objects there, or acts on what
// is missing. Copies and snapshots have one each: a bucket bounds its connections, and none waits
// for those of another. Only calls of the store look for the mark, so opening waits for no bucket.
func (o *Options) opener(prefix string) func() (objects.Store, error) {
	m := &marks{url: o.Conf.URL, prefix: prefix, image: o.Applier.Image, applied: o.Applier.WaitFor,
		name: o.Controller.NameStore, log: o.Log}
	open := access.NewOpener(o.FS, o.Conf).Open
	return func() (objects.Store, error) {
		store, err := open()
		if err != nil {
			return nil, err
		}
		return marked{store, m}, nil
	}
}

// marked is a store whose file system may be unmounted at any time. Nothing is put there without
// the mark. What was put, and what is missing, counts only if the store has the mark afterwards.
type marked struct {
	objects.Store
	marks *marks
}

// Put implements objects.Store.
func (s marked) Put(ctx context.Context, name string, body objects.Body) error {
	return s.puts(ctx, func() error { return s.Store.Put(ctx, name, body) })
}

// Copy implements objects.Store.
func (s marked) Copy(ctx context.Context, from objects.Info, to string) error {
	return s.puts(ctx, func() error { return s.Store.Copy(ctx, from, to) })
}

func (s marked) puts(ctx context.Context, put func() error) error {
	if err := s.marks.check(ctx, s.Store, true); err != nil {
		return err
	}
	err := put()
	if err == nil || errors.Is(err, objects.ErrNotFound) {
		err = cmp.Or(s.marks.check(ctx, s.Store, true), err)
	}
	return err
}

// Get implements objects.Store.
func (s marked) Get(ctx context.Context, name string, off int64, p []byte) (n int, err error) {
	n, err = s.Store.Get(ctx, name, off, p)
	if errors.Is(err, objects.ErrNotFound) {
		err = cmp.Or(s.marks.check(ctx, s.Store, false), err)
	}
	return n, err
}

// List implements objects.Store.
func (s marked) List(ctx context.Context, prefix string, each func(objects.Info) error) error {
	err := s.Store.List(ctx, prefix, each)
	if err == nil {
		err = s.marks.check(ctx, s.Store, false)
	}
	return err
}

// check returns an error, which does not match objects.ErrNotFound, unless the store is that of the
// cluster. That of a cluster that has put nothing is any store, and gets the mark if something is
// to be put.
func (m *marks) check(ctx context.Context, store objects.Store, puts bool) (err error) {
	img := m.image()
	mark := objects.Nonce(img.ObjectStore().Mark)
	if mark == (objects.Nonce{}) {
		if img.FeatureLevel() < metadata.StoreLevel || !puts && !names(img) {
			return nil
		}
		if mark, err = m.first(ctx, store, img); err != nil {
			return err
		}
	}
	if err = format.CheckMark(ctx, store, m.prefix, mark); errors.Is(err, objects.ErrNotFound) {
		return m.refuse(mark)
	}
	return err
}

// names reports whether the metadata name objects of the store.
func names(img *metadata.Image) bool {
	for _, t := range img.Tiers() {
		if !t.Empty() {
			return true
		}
	}
	return len(img.Snapshots()) > 0
}

func (m *marks) refuse(mark objects.Nonce) error {
	return fmt.Errorf("the object store is not the one of this cluster: it lacks %s; its file system is not mounted, archive.url is not "+
		"the same on all brokers, or the first objects were put while it was not mounted; see docs/tiered-storage.md", m.where(mark))
}

// where returns the URL of a mark.
func (m *marks) where(mark objects.Nonce) string {
	return strings.TrimSuffix(m.url, "/") + "/" + format.MarkName(m.prefix, mark)
}

// first returns the mark of the metadata, which is named now if it was not before. A store that has
// one, because the metadata were recovered from an older state, gets no other. Metadata that name
// objects belong to a store that has some.
func (m *marks) first(ctx context.Context, store objects.Store, img *metadata.Image) (mark objects.Nonce, err error) {
	has, err := format.FindMark(ctx, store, m.prefix)
	if err != nil {
		return mark, err
	}
	if mark = has.Mark; mark == (objects.Nonce{}) {
		if names(img) && !has.Others {
			return mark, m.refuse(objects.Nonce(img.Generation()))
		}
		mark = objects.NewNonce() // before it is named: a store without the mark would be refused
		if err := format.PutMark(ctx, store, m.prefix, mark); err != nil {
			return mark, err
		}
	}
	revision, err := m.name(ctx, metadata.ObjectStore{Mark: metadata.ID(mark)})
	newer, other := metadata.Refused(err)
	if other { // another broker has named one
		revision, err = newer, nil
	}
	if err == nil {
		err = m.applied(ctx, revision)
	}
	if err != nil {
		return mark, fmt.Errorf("name the object store in the metadata: %w", err)
	}
	named := objects.Nonce(m.image().ObjectStore().Mark)
	switch {
	case !other:
		m.log.Info("the object store is that of the cluster from now on", zap.String("mark", m.where(mark)))
	case named != mark && has.Mark == (objects.Nonce{}):
		err = store.Delete(ctx, format.MarkName(m.prefix, mark))
	}
	return named, err
}

package archiving

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

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

	naming sync.Mutex // held while the first mark is put and named
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

// marked is a store whose file system may be unmounted and mounted at any time. Nothing is put
// there without the mark. What was put, and what is missing, counts only if the store has the mark
// afterwards.
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
	if err != nil && !errors.Is(err, objects.ErrNotFound) {
		return err
	}
	if other := s.marks.check(ctx, s.Store, true); other != nil {
		return other
	}
	return err
}

// Get implements objects.Store.
func (s marked) Get(ctx context.Context, name string, off int64, p []byte) (n int, err error) {
	n, err = s.Store.Get(ctx, name, off, p)
	if !errors.Is(err, objects.ErrNotFound) {
		return n, err
	}
	if err := s.marks.check(ctx, s.Store, false); err != nil {
		return n, err
	}
	return s.Store.Get(ctx, name, off, p) // it may have been mounted just now
}

// List implements objects.Store.
func (s marked) List(ctx context.Context, prefix string, each func(objects.Info) error) error {
	if err := s.marks.check(ctx, s.Store, false); err != nil {
		return err
	}
	if err := s.Store.List(ctx, prefix, each); err != nil {
		return err
	}
	return s.marks.check(ctx, s.Store, false)
}

// check returns an error, which does not match objects.ErrNotFound, unless the store is that of the
// cluster. That of a cluster that has put nothing is any store, and gets the mark if something is
// to be put.
func (m *marks) check(ctx context.Context, store objects.Store, puts bool) (err error) {
	img := m.image()
	mark := objects.Nonce(img.ObjectStore().Mark)
	if mark == (objects.Nonce{}) {
		if img.FeatureLevel() < metadata.StoreLevel || !puts && !mayHave(img) {
			return nil
		}
		if mark, err = m.first(ctx, store); err != nil {
			return err
		}
	}
	if err = format.CheckMark(ctx, store, m.prefix, mark); errors.Is(err, objects.ErrNotFound) {
		return m.refuse(mark)
	}
	return err
}

// mayHave reports whether the store of the cluster may have objects, although the metadata name no
// mark: they name objects, or were recovered from an older state.
func mayHave(img *metadata.Image) bool { return recovered(img) || len(named(img)) > 0 }

func recovered(img *metadata.Image) bool { return img.Recovered().UnixMilli() > 0 }

// named returns the names of a few objects that the store has by the metadata.
func named(img *metadata.Image) (list []string) {
	if all := img.Snapshots(); len(all) > 0 {
		x := &all[len(all)-1]
		list = append(list, (&format.Name{Kind: objects.Index, Number: x.Number, Nonce: objects.Nonce(x.Nonce)}).String())
	}
	for tp, t := range img.Tiers() {
		if len(list) == 4 {
			break
		}
		if !t.Empty() {
			id := format.ID{Topic: tp.Topic, Partition: tp.Partition}
			list = append(list, (&format.Name{Kind: objects.Manifest, Partition: id, Nonce: objects.Nonce(t.Manifest)}).String())
		}
	}
	return list
}

// belongs returns an error unless a store without a mark may be that of the cluster: it has an
// object that the metadata name. If they name none and were recovered, any object of the cluster
// will do.
func (m *marks) belongs(ctx context.Context, store objects.Store, img *metadata.Image) error {
	if !mayHave(img) {
		return nil
	}
	list := named(img)
	for _, name := range list {
		_, err := store.Get(ctx, m.prefix+name, 0, make([]byte, 1))
		if !errors.Is(err, objects.ErrNotFound) {
			return err
		}
	}
	if len(list) == 0 {
		found := errors.New("found")
		if err := store.List(ctx, m.prefix, func(objects.Info) error { return found }); errors.Is(err, found) {
			return nil
		} else if err != nil {
			return fmt.Errorf("list the objects of the cluster: %w", err)
		}
	}
	return m.refuse(objects.Nonce(img.Generation()))
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
// one, because the metadata were recovered from an older state, gets no other.
func (m *marks) first(ctx context.Context, store objects.Store) (mark objects.Nonce, err error) {
	m.naming.Lock()
	defer m.naming.Unlock()
	img := m.image()
	if x := img.ObjectStore(); x != (metadata.ObjectStore{}) { // another call has named it
		return objects.Nonce(x.Mark), nil
	}
	mark, err = format.FindMark(ctx, store, m.prefix)
	if err != nil {
		return mark, err
	}
	own := mark == objects.Nonce{}
	if own {
		if err := m.belongs(ctx, store, img); err != nil {
			return mark, err
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
	of := objects.Nonce(m.image().ObjectStore().Mark)
	switch {
	case !other:
		m.log.Info("the object store is that of the cluster from now on", zap.String("mark", m.where(mark)))
	case of != mark && own:
		err = store.Delete(ctx, format.MarkName(m.prefix, mark))
	}
	return of, err
}

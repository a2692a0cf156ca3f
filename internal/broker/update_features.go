package broker

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/controller"
	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
	"github.com/chronik-io/chronik/internal/security/acl"
	"github.com/chronik-io/chronik/internal/view"
)

// UpdateFeatures (key 57), versions 0 to 2: sets levels of features (KIP-584). Only
// transaction.version and share.version have more than one.
func updateFeaturesAPI() api {
	return apiDef[*kmsg.UpdateFeaturesRequest]{
		inProportion: true,
		API:          protocol.API{Key: int16(kmsg.UpdateFeatures), Max: 2},
		asks:         clusterAsks[*kmsg.UpdateFeaturesRequest](acl.Alter),
		overloaded:   kerr.RequestTimedOut,
		handle:       inBackground(atMetadata, updateFeatures),
	}.api()
}

// feature is a feature of the cluster with the levels that it may have.
type feature struct {
	name          string
	lowest, level int16
	highest       int16
}

const (
	shareVersion       = "share.version"
	transactionVersion = "transaction.version"
)

// finalized returns the features that clients see, with their present levels.
func finalized(img *metadata.Image) []feature {
	return []feature{
		{"metadata.version", metadataVersion, metadataVersion, metadataVersion},
		{"group.version", 0, groupVersion, groupVersion},
		{shareVersion, 0, img.ShareVersion(), metadata.MaxShareVersion},
		{"streams.version", 0, streamsVersion, streamsVersion},
		{transactionVersion, 0, img.TransactionVersion(), metadata.MaxTransactionVersion},
	}
}

// sharesEnabled is apiDef.enabled of the requests of clients about share groups.
func sharesEnabled(img *metadata.Image) bool { return img.ShareVersion() > 0 }

// The values of UpgradeType, from version 1 of the API on.
const (
	upgradeOnly     = 1
	unsafeDowngrade = 3
)

// updateFeatures sets all levels or none, as Kafka does.
func updateFeatures(ctx context.Context, b *Handler, r *network.Request, req *kmsg.UpdateFeaturesRequest) kmsg.Response {
	resp := respondTo(r, kmsg.NewPtrUpdateFeaturesResponse())
	if body := operatorAsk(&req.UnknownTags, view.SnapshotTag); body != nil {
		resp.UnknownTags.Set(view.SnapshotTag, b.askSnapshot(ctx, body))
		return resp
	}
	c := b.newChange(r, milliseconds(req.TimeoutMillis))
	names := counts(req.FeatureUpdates, func(u *kmsg.UpdateFeaturesRequestFeatureUpdate) string { return u.Feature })
	var whole error
	levels := controller.Features{Transactions: -1, Shares: -1}
	for i := range req.FeatureUpdates {
		u := &req.FeatureUpdates[i]
		err := checkFeature(b.image(), req.Version, u)
		if names[u.Feature] > 1 {
			err = protocolErrorf(kerr.InvalidRequest, "feature %q is named twice", u.Feature)
		}
		switch u.Feature {
		case transactionVersion:
			levels.Transactions = u.MaxVersionLevel
		case shareVersion:
			levels.Shares = u.MaxVersionLevel
		}
		if err != nil && whole == nil {
			whole = err
		}
	}
	if whole == nil {
		whole = c.do(ctx, func(ctx context.Context) (int64, error) {
			return b.opt.Controller.SetFeatures(ctx, levels, req.ValidateOnly)
		})
		if whole == nil {
			whole = c.waitVisible(ctx)
		}
	}
	resp.ErrorCode, resp.ErrorMessage = c.verdict(whole)
	if req.Version < 2 { // later versions have one result for all
		for i := range req.FeatureUpdates {
			one := kmsg.NewUpdateFeaturesResponseResult()
			one.Feature = req.FeatureUpdates[i].Feature
			one.ErrorCode, one.ErrorMessage = resp.ErrorCode, resp.ErrorMessage
			resp.Results = append(resp.Results, one)
		}
	}
	return resp
}

// checkFeature returns why a feature can't get a level, nil if it can.
func checkFeature(img *metadata.Image, version int16, u *kmsg.UpdateFeaturesRequestFeatureUpdate) error {
	for _, f := range finalized(img) {
		if f.name != u.Feature {
			continue
		}
		down := u.UpgradeType > upgradeOnly
		if version == 0 {
			down = u.AllowDowngrade
		}
		switch {
		case version > 0 && (u.UpgradeType < upgradeOnly || u.UpgradeType > unsafeDowngrade):
			return protocolErrorf(kerr.InvalidRequest, "upgrade type %d of %s: use 1 to upgrade, 2 or 3 to downgrade",
				u.UpgradeType, f.name)
		case u.MaxVersionLevel < f.lowest || u.MaxVersionLevel > f.highest:
			return protocolErrorf(kerr.InvalidUpdateVersion, "%s does not support level %d: its levels are %d to %d", f.name,
				u.MaxVersionLevel, f.lowest, f.highest)
		case u.MaxVersionLevel < f.level && f.name != transactionVersion && f.name != shareVersion:
			return protocolErrorf(kerr.InvalidUpdateVersion, "%s can't be set to %d: it has no level but %d",
				f.name, u.MaxVersionLevel, f.level)
		case u.MaxVersionLevel < f.level && !down:
			return protocolErrorf(kerr.InvalidUpdateVersion, "%s is at level %d: use a downgrade to set it to %d", f.name, f.level,
				u.MaxVersionLevel)
		case u.MaxVersionLevel > f.level && down:
			return protocolErrorf(kerr.InvalidUpdateVersion, "%s is at level %d: use an upgrade to set it to %d", f.name, f.level,
				u.MaxVersionLevel)
		}
		return nil
	}
	return protocolErrorf(kerr.InvalidUpdateVersion, "there is no feature %q", u.Feature)
}

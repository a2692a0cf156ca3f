package broker

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/chronik-io/chronik/internal/metadata"
	"github.com/chronik-io/chronik/internal/network"
	"github.com/chronik-io/chronik/internal/protocol"
)

// ApiVersions (key 18), versions 0 to 5: exactly the versions in the table.
func apiVersionsAPI() api {
	return apiDef[*kmsg.ApiVersionsRequest]{
		inProportion: true,
		API:          protocol.API{Key: protocol.KeyApiVersions, Max: 5},
		asks:         asks[*kmsg.ApiVersionsRequest]{nothing: true},
		decode:       decodeApiVersions,
		handle:       answering(apiVersions),
	}.api()
}

// decodeApiVersions reads nothing of an unknown version, whose format is also unknown.
func decodeApiVersions(b *Handler, r *network.Request) (*kmsg.ApiVersionsRequest, int, error) {
	if r.Unsupported {
		return nil, 0, nil
	}
	return decode[*kmsg.ApiVersionsRequest](b, r)
}

// metadataVersion is the level of metadata.version that clients see, as Kafka numbers it: 33 is
// 4.4-IV2. It means that requests have the same meaning as in Kafka 4.4. There is no other level,
// since chronik's own metadata has its own (metadata.MaxFeatureLevel).
//
// groupVersion is the level of group.version: with 1 clients may use the protocol of KIP-848.
// streamsVersion is that of streams.version: with 1 Kafka Streams may use that of KIP-1071.
const (
	metadataVersion = 33
	groupVersion    = 1
	streamsVersion  = 1
)

func apiVersions(b *Handler, r *network.Request, req *kmsg.ApiVersionsRequest) kmsg.Response {
	self := b.opt.Self
	if r.Listener.Forward && !r.Unsupported {
		if _, known := b.image().Broker(req.NodeID); known {
			self = req.NodeID // the address is that of every broker
		}
	}
	resp := listVersions(b.table, b.image(), self, r, req).(*kmsg.ApiVersionsResponse)
	if b.forwards(r) {
		resp.ApiKeys = slices.DeleteFunc(resp.ApiKeys, func(v kmsg.ApiVersionsResponseApiKey) bool {
			return b.entries[v.ApiKey].route == byNone
		})
	}
	return resp
}

// listVersions answers with the table and the features of an image, for the broker self. A nil
// image means that no features are known yet: the answer then finalizes none, with the epoch -1
// that says so (KIP-584).
func listVersions(table *protocol.Table, img *metadata.Image, self int32, r *network.Request, req *kmsg.ApiVersionsRequest) kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	if r.Unsupported {
		// Version 0 is the only one that this client is certain to understand; the entry tells it
		// which version to retry with (KIP-511).
		own, _ := table.Lookup(protocol.KeyApiVersions)
		resp.ErrorCode = kerr.UnsupportedVersion.Code
		resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{apiVersion(own)}
		r.Code = resp.ErrorCode
		return resp
	}
	respondTo(r, resp)
	if r.Version >= 3 {
		if err := misrouted(img, self, req); err != nil {
			setCode(r, &resp.ErrorCode, err)
			return resp
		}
		r.SetSoftware(network.Software{Name: req.ClientSoftwareName, Version: req.ClientSoftwareVersion})
	}
	for _, a := range table.APIs() {
		resp.ApiKeys = append(resp.ApiKeys, apiVersion(a))
	}
	listFeatures(resp, img)
	return resp
}

// misrouted returns why a client must not use this connection: its software has no valid name, or
// it looks for another broker (KIP-1242). That happens when brokers exchange addresses, or when an
// address leads to another cluster than before. The client then asks its bootstrap servers again.
func misrouted(img *metadata.Image, self int32, req *kmsg.ApiVersionsRequest) *kerr.Error {
	switch known := img != nil && img.ClusterID() != ""; {
	case !softwareName(req.ClientSoftwareName) || !softwareName(req.ClientSoftwareVersion):
		return kerr.InvalidRequest
	case (req.ClusterID == nil) != (req.NodeID == -1): // both fields are absent before version 5
		return kerr.InvalidRequest
	case req.ClusterID == nil:
		return nil
	case req.NodeID != self, known && *req.ClusterID != img.ClusterID():
		return kerr.RebootstrapRequired
	}
	return nil
}

func apiVersion(a protocol.API) kmsg.ApiVersionsResponseApiKey {
	v := kmsg.NewApiVersionsResponseApiKey()
	v.ApiKey, v.MinVersion, v.MaxVersion = a.Key, a.ListedMin(), a.Max
	return v
}

// listFeatures fills in the features of the cluster (KIP-584). Only versions from 3 on carry them.
func listFeatures(resp *kmsg.ApiVersionsResponse, img *metadata.Image) {
	known := img != nil
	if !known {
		img = metadata.Empty() // its levels are not shown
	}
	for _, f := range finalized(img) {
		supported := kmsg.NewApiVersionsResponseSupportedFeature()
		supported.Name, supported.MinVersion, supported.MaxVersion = f.name, f.lowest, f.highest
		// Clients of version 3 treat a lowest level of 0 as an error (KAFKA-17011).
		if f.lowest > 0 || resp.Version >= 4 {
			resp.SupportedFeatures = append(resp.SupportedFeatures, supported)
		}
		if known && f.level > 0 { // as in Kafka, a feature at level 0 is not finalized
			at := kmsg.NewApiVersionsResponseFinalizedFeature()
			at.Name, at.MinVersionLevel, at.MaxVersionLevel = f.name, f.level, f.level
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, at)
		}
	}
	if known {
		resp.FinalizedFeaturesEpoch = img.Version()
	}
}

// softwareName reports whether s is valid as a client's name or version (KIP-511): letters, digits,
// dots and dashes, with neither of the last two at an end.
func softwareName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case (c == '.' || c == '-') && i > 0 && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}

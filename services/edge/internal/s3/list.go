package s3

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/services/edge/internal/object"
)

const (
	xmlns     = "http://s3.amazonaws.com/doc/2006-03-01/"
	isoTime   = "2006-01-02T15:04:05.000Z"
	maxKeys   = 1000
	ownerName = "frazil"
)

type owner struct {
	ID          string `xml:"ID"`
	DisplayName string `xml:"DisplayName"`
}

type bucketEntry struct {
	Name         string `xml:"Name"`
	CreationDate string `xml:"CreationDate"`
	BucketRegion string `xml:"BucketRegion"`
}

type bucketList struct {
	XMLName xml.Name      `xml:"ListAllMyBucketsResult"`
	Xmlns   string        `xml:"xmlns,attr"`
	Owner   owner         `xml:"Owner"`
	Buckets []bucketEntry `xml:"Buckets>Bucket"`
}

func (h *Handler) listBuckets(q *request) error {
	q.writeXML(http.StatusOK, bucketList{
		Xmlns: xmlns, Owner: owner{ownerName, ownerName},
		Buckets: []bucketEntry{{h.cfg.Bucket, lastModified().Format(isoTime), h.cfg.Region}},
	})
	return nil
}

type locationBody struct {
	XMLName xml.Name `xml:"LocationConstraint"`
	Xmlns   string   `xml:"xmlns,attr"`
	Region  string   `xml:",chardata"`
}

// location: us-east-1 is written as nothing, as S3 has it.
func (h *Handler) location(q *request) error {
	region := h.cfg.Region
	if region == "us-east-1" {
		region = ""
	}
	q.writeXML(http.StatusOK, locationBody{Xmlns: xmlns, Region: region})
	return nil
}

type content struct {
	Key          string `xml:"Key"`
	LastModified string `xml:"LastModified"`
	ETag         string `xml:"ETag"`
	Size         int64  `xml:"Size"`
	StorageClass string `xml:"StorageClass"`
	Owner        *owner `xml:"Owner,omitempty"`
}

type commonPrefix struct {
	Prefix string `xml:"Prefix"`
}

type listResult struct {
	XMLName  xml.Name `xml:"ListBucketResult"`
	Xmlns    string   `xml:"xmlns,attr"`
	Name     string   `xml:"Name"`
	Prefix   string   `xml:"Prefix"`
	Delim    string   `xml:"Delimiter,omitempty"`
	MaxKeys  int      `xml:"MaxKeys"`
	Encoding string   `xml:"EncodingType,omitempty"`
	// Version 1.
	Marker     *string `xml:"Marker,omitempty"`
	NextMarker string  `xml:"NextMarker,omitempty"`
	// Version 2.
	KeyCount   *int   `xml:"KeyCount,omitempty"`
	Token      string `xml:"ContinuationToken,omitempty"`
	NextToken  string `xml:"NextContinuationToken,omitempty"`
	StartAfter string `xml:"StartAfter,omitempty"`

	IsTruncated bool           `xml:"IsTruncated"`
	Contents    []content      `xml:"Contents"`
	Prefixes    []commonPrefix `xml:"CommonPrefixes"`
}

// listing is what a listing asks for, after both versions' parameters were read.
type listing struct {
	prefix, delimiter string
	// after is the last key or prefix before the page, or what start-after named.
	after string
	// resumed: after came from a page, so that a group it names was listed already.
	resumed bool
	max     int
}

// list answers ListObjects and ListObjectsV2 over what object.Store lists.
func (h *Handler) list(ctx context.Context, q *request) error {
	v2 := q.query.Get("list-type") == "2"
	q.w.Operation = "ListObjects"
	if v2 {
		q.w.Operation = "ListObjectsV2"
	} else if q.query.Has("list-type") {
		return refuse(http.StatusBadRequest, "InvalidArgument", "list-type must be 2")
	}
	l, err := parseListing(q.query, v2)
	if err != nil {
		return err
	}
	all, err := h.deps.Store.List(ctx, q.claims.Scope, h.cfg.Bucket)
	if err != nil {
		return err
	}
	page := l.page(all)
	enc := func(s string) string { return s }
	if q.query.Get("encoding-type") == "url" {
		enc = encodeKey
	}
	res := listResult{
		Xmlns: xmlns, Name: h.cfg.Bucket, Prefix: enc(l.prefix), Delim: enc(l.delimiter), MaxKeys: l.max,
		Encoding: q.query.Get("encoding-type"), IsTruncated: page.truncated,
	}
	for _, o := range page.objects {
		c := content{Key: enc(o.Key), LastModified: lastModified().Format(isoTime), ETag: o.ETag, Size: o.Size, StorageClass: "STANDARD"}
		if !v2 || q.query.Get("fetch-owner") == "true" {
			c.Owner = &owner{ownerName, ownerName}
		}
		res.Contents = append(res.Contents, c)
	}
	for _, p := range page.prefixes {
		res.Prefixes = append(res.Prefixes, commonPrefix{enc(p)})
	}
	if v2 {
		count := len(page.objects) + len(page.prefixes)
		res.KeyCount = &count
		res.Token, res.StartAfter = q.query.Get("continuation-token"), enc(q.query.Get("start-after"))
		if page.truncated {
			res.NextToken = token(page.last)
		}
	} else {
		marker := enc(l.after)
		res.Marker = &marker
		if page.truncated && l.delimiter != "" {
			res.NextMarker = enc(page.last)
		}
	}
	q.writeXML(http.StatusOK, res)
	return nil
}

func parseListing(query url.Values, v2 bool) (listing, error) {
	l := listing{prefix: query.Get("prefix"), delimiter: query.Get("delimiter"), after: query.Get("marker"), resumed: true, max: maxKeys}
	if e := query.Get("encoding-type"); e != "" && e != "url" {
		return l, refuse(http.StatusBadRequest, "InvalidArgument", "Invalid Encoding Method specified in Request")
	}
	if s := query.Get("max-keys"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			return l, refuse(http.StatusBadRequest, "InvalidArgument", "Provided max-keys not an integer or within integer range")
		}
		l.max = min(n, maxKeys)
	}
	if !v2 {
		return l, nil
	}
	l.after, l.resumed = query.Get("start-after"), false
	if query.Has("continuation-token") {
		after, ok := parseToken(query.Get("continuation-token"))
		if !ok {
			return l, refuse(http.StatusBadRequest, "InvalidArgument", "The continuation token provided is incorrect")
		}
		l.after, l.resumed = after, true
	}
	return l, nil
}

// A continuation token holds the last key or prefix of the page before, so that any edge continues.
func token(last string) string {
	return base64.RawURLEncoding.EncodeToString([]byte("1:" + last))
}

func parseToken(t string) (string, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(t)
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(string(raw), "1:")
}

type page struct {
	objects   []object.Info
	prefixes  []string
	last      string // the last key or prefix on the page
	truncated bool
}

// page cuts a page out of objects sorted by key. Keys that share the text up to the first delimiter after the
// prefix count as one entry, and are passed as one when the page before ended with it.
func (l listing) page(all []object.Info) page {
	var p page
	for _, o := range all {
		if !strings.HasPrefix(o.Key, l.prefix) || o.Key <= l.after {
			continue
		}
		entry := o.Key
		group := false
		if l.delimiter != "" {
			if i := strings.Index(o.Key[len(l.prefix):], l.delimiter); i >= 0 {
				entry, group = o.Key[:len(l.prefix)+i+len(l.delimiter)], true
			}
		}
		if group && (l.resumed && entry == l.after || slices.Contains(p.prefixes, entry)) {
			continue
		}
		if len(p.objects)+len(p.prefixes) == l.max {
			// Nothing was asked for: there is no page to go on from.
			p.truncated = l.max > 0
			return p
		}
		if group {
			p.prefixes = append(p.prefixes, entry)
		} else {
			p.objects = append(p.objects, o)
		}
		p.last = entry
	}
	return p
}

// encodeKey is encoding-type=url: a slash stays.
func encodeKey(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/")
}

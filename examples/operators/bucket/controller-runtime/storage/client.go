// Package storage is a client of the storage service.
package storage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Bucket is a bucket of the storage service.
type Bucket struct {
	Region    string `json:"region"`
	Quota     int64  `json:"quota"`
	UsedBytes int64  `json:"usedBytes"`
}

// Client sends requests to the storage service.
type Client struct {
	url  string
	http http.Client
}

// NewClient creates a client of the service at the URL.
func NewClient(url string) *Client {
	return &Client{url: url, http: http.Client{Timeout: 10 * time.Second}}
}

// Get returns a bucket, or nil if the bucket does not exist.
func (c *Client) Get(ctx context.Context, namespace, name string) (*Bucket, error) {
	return c.send(ctx, http.MethodGet, namespace, name, nil)
}

// Put creates or updates a bucket, and returns its new state.
func (c *Client) Put(ctx context.Context, namespace, name, region string, quota int64) (*Bucket, error) {
	body, err := json.Marshal(map[string]any{"region": region, "quota": quota})
	if err != nil {
		return nil, err
	}
	return c.send(ctx, http.MethodPut, namespace, name, body)
}

// Delete deletes a bucket. A bucket that does not exist is not an error.
func (c *Client) Delete(ctx context.Context, namespace, name string) error {
	_, err := c.send(ctx, http.MethodDelete, namespace, name, nil)
	return err
}

func (c *Client) send(ctx context.Context, method, namespace, name string, body []byte) (*Bucket, error) {
	url := fmt.Sprintf("%s/buckets/%s/%s", c.url, namespace, name)
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		var bucket Bucket
		return &bucket, json.NewDecoder(response.Body).Decode(&bucket)
	case http.StatusNoContent, http.StatusNotFound:
		return nil, nil
	default:
		return nil, fmt.Errorf("%s %s: the storage service responded with %s", method, url, response.Status)
	}
}

# Tests that a ticket reply that arrives from the store after the request timed out does not open a stream.
use strict;
use warnings;

use Clairon::Test qw(token wait_until);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $late  = Clairon::Test::delayed_replies($store->{socket});
my $relay = Clairon::Test::relay(undef, $late, roles => 'gate', conf => { 'relay.log_level' => 'debug' });

my $made = Clairon::Test::RawSocket->new($relay);
my $response = $made->request(POST => '/v1/ticket', Authorization => 'Bearer ' . token(sub => 't1'), 'Content-Length' => 0);
my $ticket = JSON::decode_json($response->{body})->{ticket};

# With an excess byte, the connection stays open after the response.
$late->hold(ticket => $late->script('ticket'));
my $raw = Clairon::Test::RawSocket->new($relay);
$raw->write("GET /v1/sse?ticket=$ticket HTTP/1.1\r\nHost: x\r\n\r\n");
$late->wait_held('ticket');
$raw->write('x');
1 until $raw->{bytes} =~ /\r\n\r\n.*\}/s || !$raw->more;
like($raw->{bytes}, qr/^HTTP\/1\.1 503 .*store does not reply/s, 'a request without a reply from the store times out');
$late->release('ticket');
1 while $raw->more;
unlike($raw->{bytes}, qr/event-stream/, 'the late reply does not open a stream');
unlike($relay->log_text, qr/stream opened/, 'the late reply does not open a session');
$raw->disconnect;
wait_until('no stream remains', sub { $relay->metric('clairon_gate_streams') == 0 });
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();

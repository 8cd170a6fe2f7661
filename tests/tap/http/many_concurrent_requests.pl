# Do many requests that stay, or come slowly, or whose client is gone, leave the relay free for everybody else?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use Clairon::Test::SecureSocket;
use JSON ();
use Test::More;

# As many as libwebsockets has places for headers, and more.
use constant { MANY => 1100, SLOW => 600 };
system('prlimit', '--pid', $$, '--nofile=' . (2 * MANY) . ':') == 0 or die "could not raise the limit of descriptors\n";

my $store = Clairon::Test::store();
# No ping tells who is gone.
my %conf = ('gate.ping' => '10m', 'gate.max_connections' => 3 * MANY);
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => {%conf});

sub streams { return $relay->metric('clairon_gate_streams') }
sub bearer { my ($user, %claims) = @_; return 'Authorization: Bearer ' . token(sub => $user, %claims) . "\r\n" }

# A request, as far as it is said.
sub said
{
    my ($bytes) = @_;
    my $raw = Clairon::Test::RawSocket->new($relay);
    $raw->write($bytes);
    return $raw;
}
sub body { my ($path, $len, $bytes) = @_; return said("POST $path HTTP/1.1\r\nHost: x\r\n" . bearer('u1') . "Content-Length: $len\r\n\r\n$bytes") }

# Who goes.
for my $path ('/v1/sse', '/v1/poll?wait=60')
{
    my @gone = map { said("GET $path HTTP/1.1\r\nHost: x\r\n" . bearer('gone') . "\r\n") } 1 .. 3;
    wait_until("$path: they are there", sub { streams() == 3 });
    $gone[0]->disconnect;
    shutdown $gone[1]{link}, 1;
    wait_until("$path: their end is seen", sub { streams() == 1 });
    pass("$path: who hangs up, or will say no more, is let go at once");
    $gone[2]->disconnect;
    wait_until("$path: all are gone", sub { streams() == 0 });
}

# Who goes on talking.
my $stream = Clairon::Test::EventStream->open($relay, 'u1');
$stream->wait_message('connected');
$stream->write("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
my $api = token(sub => 'api', publish => JSON::true);
my $note = '{"payload":{"n":1},"routing":{"audience":{"type":"USER","targets":["u1"]}}}';
is(said("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $api\r\nContent-Length: " . length($note) . "\r\n\r\n$note")->read_response->{status},
    201, 'a notification');
is($stream->next_notification->{payload}{n}, 1, 'what is said after the request of a stream is passed over');
$stream->disconnect;
wait_until('its end is seen', sub { streams() == 0 });
$stream = Clairon::Test::EventStream->open($relay, 'u1');
$stream->wait_message('connected');
$stream->write('x' x 50_000) for 1 .. 4;
$stream->wait_end;
wait_until('the stream has ended', sub { streams() == 0 });
pass('who says more and more is let go');

# Many that stay.
my @many = map { said('GET ' . ($_ % 2 ? '/v1/sse' : '/v1/poll?wait=60') . " HTTP/1.1\r\nHost: x\r\n" . bearer("m$_") . "\r\n") } 1 .. MANY;
wait_until('all are there', sub { streams() == MANY });
pass(MANY . ' streams and polls');
is($relay->client('late')->wait_for('connected')->{user}, 'late', 'are in nobody\'s way');
$_->disconnect for @many;
wait_until('they are gone', sub { streams() == 0 });

# Many bodies that come slowly: who waits for longest makes room.
my @slow = map { body('/v1/ack', 100, '{') } 1 .. SLOW;
is(body('/v1/ack', 48, '{"ids":["00000000-0000-0000-0000-000000000000"]}')->read_response->{status}, 204, 'one that comes at once is done meanwhile');
is($slow[0]->read_response->{status}, 503, 'the oldest of those that come slowly makes room');
ok($slow[0]{response}{headers}{'retry-after'}, 'and is told when to try again');
# Those of them, and one for each that came later; who was refused waits, and sends nobody away by that.
cmp_ok($relay->metric('clairon_gate_refused_total'), '<=', SLOW - 512 + 2, 'nobody else has to');
$slow[-1]->write(' ' x 52 . '"ids":["00000000-0000-0000-0000-000000000000"]}');
is($slow[-1]->read_response->{status}, 204, 'the newest has its time');
$_->disconnect for @slow;

# Many that were refused, and neither go on nor go.
sub descriptors { my @open = glob '/proc/' . $relay->pid . '/fd/*'; return scalar @open }
wait_until('they are gone', sub { descriptors() < 100 });
my $idle = descriptors();
my @stay = map { said("POST /v1/ack HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{") } 1 .. SLOW;
1 until $stay[-1]{bytes} =~ /\r\n\r\n/ || !$stay[-1]->more;
like($stay[-1]{bytes}, qr/^HTTP\/1\.1 401 /, 'who is refused is told so');
cmp_ok(descriptors(), '<=', $idle + 520, 'and not waited for where there are many');
$_->disconnect for @stay;

# Large bodies: they have a ceiling together.
my @large = map { body('/v1/ack', 1_048_576, ' ' x 1_048_000) } 1 .. 80;
is($large[0]->read_response->{status}, 503, 'the oldest of many large ones makes room');
$large[-1]->write(' ' x 576);
is($large[-1]->read_response->{status}, 400, 'the newest is read to its end');
$_->disconnect for @large;
is(($relay->get('/healthz'))[0], 200, 'and the relay goes on');
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Bodies that are complete wait for a store that says nothing: nobody makes room for more of them.
my $proxy = Clairon::Test::proxy($store->{socket});
$relay = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { %conf, 'store.url' => $proxy->url('redis') });
$proxy->freeze;
my $asked = "POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $api\r\nContent-Length: " . length($note) . "\r\n\r\n$note";
my @waiting = map { said($asked) } 1 .. SLOW;
is($waiting[-1]->read_response->{status}, 503, 'one too many is told so');
is(said("GET /v1/notifications/00000000-0000-0000-0000-000000000000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $api\r\n\r\n")->read_response->{status}, 503, 'so is who asks what became of one');
is(($relay->get('/healthz'))[0], 200, 'and is in nobody\'s way');
$proxy->thaw;
is($waiting[0]->read_response->{status}, 201, 'those that waited are done');
$_->disconnect for @waiting;
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

# Over TLS too.
SKIP:
{
    eval { require IO::Socket::SSL; 1 } or skip 'IO::Socket::SSL is not installed', 2;
    my ($cert, $key) = Clairon::Test::SecureSocket::certificate();
    $relay = Clairon::Test::relay(undef, $store, roles => 'gate', wait => 0, conf => { %conf, 'gate.tls_cert' => $cert, 'gate.tls_key' => $key });
    $relay->wait_for_log(qr/listening/);
    my $raw = Clairon::Test::SecureSocket->new($relay, $cert);
    $raw->write("GET /v1/sse HTTP/1.1\r\nHost: x\r\n" . bearer('u1') . "\r\n");
    1 until $raw->{bytes} =~ /"t":"connected"/ || !$raw->more;
    $raw->write('GET /healthz');
    $raw->{link}->close;
    $relay->wait_for_log(qr{user=u1.*ended /v1/sse});
    pass('a stream over TLS whose client goes is let go');
    is($relay->stop, 0, 'SIGTERM ends the relay in good order');
}

done_testing();

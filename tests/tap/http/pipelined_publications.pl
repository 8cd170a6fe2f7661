# Tests that pipelined publications do not wait for each other, and that their responses keep the order of the requests.
use strict;
use warnings;

use Clairon::Test qw(token);
use Clairon::Test::RawSocket;
use IO::Select ();
use JSON ();
use Test::More;

use constant MANY => 100;    # more than may be in progress, and more than one read

my $store  = Clairon::Test::store();
my $late   = Clairon::Test::delayed_replies($store->{socket});
my $relay  = Clairon::Test::relay(undef, $late, roles => 'gate', conf => { 'gate.request_rate' => 1_000_000 });
my $client = $relay->client('u1');
$client->wait_for('connected');
my $bearer = 'Authorization: Bearer ' . token(sub => 'app', publish => JSON::true) . "\r\n";

sub publication
{
    my ($number, %options) = @_;
    my $body = $options{body} // qq({"payload":{"n":$number},"routing":{"audience":{"type":"USER","targets":["u1"]}}});
    return "POST /v1/notifications HTTP/1.1\r\nHost: x\r\n$bearer" . ($options{headers} // '') . 'Content-Length: ' . length($body) . "\r\n\r\n$body";
}
sub statuses { my ($raw, $count) = @_; return join ' ', map { $raw->read_response->{status} } 1 .. $count }

# The reply for the first publication is delayed.
$late->hold(publish => $late->script('publish'));
my $raw = Clairon::Test::RawSocket->new($relay);
$raw->write(join '', map { publication($_) } 1 .. 3);
$late->wait_held('publish');
$client->wait_notifications(3);
is(join(' ', map { $_->{payload}{n} } $client->notifications), '1 2 3', 'pipelined publications are stored while the first one waits for the store');
ok(!IO::Select->new($raw->{link})->can_read(0), 'none has a response yet');
$late->release('publish');
my @ids = map { $raw->read_response->{json}{id} } 1 .. 3;
is_deeply(\@ids, [ map { $_->{metadata}{id} } $client->notifications ], 'the responses have the order of the requests');
is($raw->request(GET => '/healthz')->{status}, 200, 'the connection serves further requests');

# Responses without the store wait for those before them.
$late->hold(publish => $late->script('publish'));
$raw->write(publication(4) . publication(5, body => '{}') . publication(6) . "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" . publication(7));
$late->wait_held('publish');
$client->wait_notifications(5);
$late->release('publish');
is(statuses($raw, 5), '201 400 201 200 201', 'a rejected publication and another route are answered in order');

# A request that has not arrived completely waits, and so do those beyond the limit.
my $part = publication(MANY + 8);
$raw->write(join('', map { publication($_) } 8 .. MANY + 7) . substr($part, 0, -5));
is(statuses($raw, MANY), join(' ', (201) x MANY), 'more publications than may be in progress are stored');
$raw->write(substr $part, -5);
is(statuses($raw, 1), '201', 'a publication whose body arrives later is stored');
$client->wait_notifications(MANY + 7);
is_deeply([ map { $_->{payload}{n} } $client->notifications ], [ 1 .. 4, 6 .. MANY + 8 ], 'all arrive once, in order');

# The end of the connection.
$raw->write(publication(1) . publication(2, headers => "Connection: close\r\n") . publication(3));
is(statuses($raw, 2), '201 201', 'publications up to the last request have a response');
1 while $raw->more;
is($raw->{bytes}, '', 'requests after Connection: close have none');
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write(publication(1) . publication(2));
shutdown $raw->{link}, 1;
is(statuses($raw, 2), '201 201', 'a client that half-closes receives the responses to its pipelined publications');
$late->hold(publish => $late->script('publish'));
$raw = Clairon::Test::RawSocket->new($relay);
$raw->write(publication(1) . publication(2));
$late->wait_held('publish');
$raw->disconnect;
$late->release('publish');
is($relay->stop, 0, 'the relay survives a client that disconnects meanwhile');

done_testing();

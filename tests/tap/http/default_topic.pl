# Tests that HTTP requests have the same default topic as clairon.notify, even on relays without the feed role.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $early = Clairon::Test::relay(undef, $store, roles => 'gate');

sub topic
{
    my ($relay, %metadata) = @_;
    my $body = JSON::encode_json({ payload => {}, metadata => \%metadata, routing => { audience => { type => 'USER', targets => ['u1'] } } });
    my $raw  = Clairon::Test::RawSocket->new($relay);
    $raw->write("POST /v1/notifications HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " . token(sub => 'api', publish => JSON::true)
          . "\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
    my $response = $raw->read_response;
    die "the notification was rejected: $response->{status}\n" if $response->{status} != 201;
    my $id = JSON::decode_json($response->{body})->{id};
    my $trace = Clairon::Test::RawSocket->new($relay)->request(GET => "/v1/notifications/$id", Authorization => 'Bearer ' . token(sub => 'api', publish => JSON::true));
    return JSON::decode_json($trace->{body})->{notification}{metadata}{topic};
}

is(topic($early), 'notify', 'the topic has no prefix before any feed runs');
my $relay = Clairon::Test::relay($pg, $store);
is(topic($relay), 'postgres.notify', 'a relay with the feed role uses the name of the database as prefix');
wait_until('a relay without the feed role uses this prefix', sub { topic($early) eq 'postgres.notify' });
is(topic($early, source => 'orders'), 'postgres.orders',
    'a relay without the feed role uses the prefix for an explicit source');
is(topic($early, topic => 'my.own'), 'my.own', 'an explicit topic is used unchanged');
my $one = $relay->client('u1');
$pg->safe_psql('postgres', q{SELECT clairon.notify('USER', '{u1}', '{}', source => 'orders')});
$one->wait_notifications(1);
is(($one->notifications)[0]{metadata}{topic}, topic($early, source => 'orders'),
    'the default topic of clairon.notify is the same');
my $late = Clairon::Test::relay(undef, $store, roles => 'gate');
is(topic($late), 'postgres.notify', 'a new relay uses the prefix for its first response');
my $own = Clairon::Test::relay(undef, $store, roles => 'gate', conf => { 'feed.topic_prefix' => 'mine' });
is(topic($own), 'mine.notify', 'the setting of a relay takes precedence over the prefix in the store');
$relay->stop;
$relay->configure('feed.topic_prefix' => 'it\'s "new"');
$relay->start;
$relay->wait_ready;
wait_until('a relay without the feed role uses the new prefix', sub { topic($late) eq 'it\'s "new".notify' });
is(topic($relay), 'it\'s "new".notify', 'a relay with the feed role uses a changed prefix');
is(topic($own), 'mine.notify', 'a changed prefix does not affect an explicit setting');
$store->execute('FLUSHALL');
wait_until('requests use the prefix again after the store was emptied',
    sub { (eval { topic($late) } // '') eq 'it\'s "new".notify' && $store->execute('HGET', $store->shared('meta'), 'topic_prefix') });
is($store->execute('HGET', $store->shared('meta'), 'topic_prefix'), 'it\'s "new"',
    'the relay stores the prefix again in an emptied store');

done_testing();

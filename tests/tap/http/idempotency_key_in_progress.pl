# Is a key refused while its first request is under way, and does a nack over HTTP do what one on a WebSocket does?
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::RawSocket;
use IO::Select;
use JSON ();
use Test::More;

my $store = Clairon::Test::store();
my $proxy = Clairon::Test::proxy($store->{socket});
my ($relay, $second) = map { Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'store.url' => $_, 'delivery.backoff_cap' => '10m', 'delivery.backoff_base' => '50ms' }) } $proxy->url('redis'), $store->url;

sub ask
{
    my ($method, $path, %options) = @_;
    my $raw = Clairon::Test::RawSocket->new($options{relay} // $relay);
    $raw->begin($method, $path, ':body' => $options{body},
        Authorization => 'Bearer ' . token(sub => $options{sub} // 'api', publish => JSON::true), %{ $options{headers} // {} });
    return $raw;
}
sub http { return ask(@_)->read_response }
sub to { my ($text, %retry) = @_; return { payload => { text => $text }, routing => { audience => { type => 'USER', targets => ['u1'] }, retry => \%retry } } }
sub with_key { my ($key, $text, %options) = @_; return ask(POST => '/v1/notifications', body => to($text), headers => { 'Idempotency-Key' => $key }, %options) }

# Two requests at once, whichever comes first: the answer of the one that is answered, and the other one.
sub answered_first
{
    my (@raws) = @_;
    my ($ready) = IO::Select->new(map { $_->{link} } @raws)->can_read($Clairon::Test::SECONDS);
    my ($one)   = grep { $_->{link} == $ready } @raws;
    return ($one->read_response, grep { $_ != $one } @raws);
}

# 409 while the first with this key has no answer of the store yet.
$proxy->freeze;
my ($busy, $first) = answered_first(with_key('one', 'x'), with_key('one', 'x'));
my $other  = with_key('two', 'x');
my $theirs = with_key('one', 'x', sub => 'somebody else');
is($busy->{status}, 409, 'the same key while its first request is under way');
is(JSON::decode_json($busy->{body})->{title}, 'Conflict', 'is told why');
like($busy->{headers}{'retry-after'}, qr/^[1-9]\d*$/, 'and when to come again');
is(with_key('one', 'another body')->read_response->{status}, 409, 'with another body too');
is(with_key('one', 'x')->read_response->{status}, 409, 'as often as it is asked');
$first->disconnect;
is(with_key('one', 'x')->read_response->{status}, 409, 'it goes on when its asker has gone');
$proxy->thaw;
is($_->read_response->{status}, 201, 'another key does not wait for it, nor the same of somebody else') for $other, $theirs;
my $again = with_key('one', 'x')->read_response;
is($again->{status}, 200, 'once it is stored it is a repeat');
is($again->{headers}{'idempotency-replayed'}, 'true', 'and told to be one');
is(with_key('one', 'another body')->read_response->{status}, 422, 'with another body it is refused');
is(with_key('one', 'x', relay => $second)->read_response->{status}, 200, 'elsewhere too');
is($store->stored, 3, 'and each was stored once');

# What could not be stored is not under way any more.
$proxy->refuse(1);
$proxy->cut;
wait_until('the store is missed', sub { with_key('three', 'x')->read_response->{status} == 503 });
is(with_key('one', 'x')->read_response->{status}, 200, 'what was stored is known without the store');
is(with_key('one', 'another body')->read_response->{status}, 422, 'also that it was something else');
is(with_key('three', 'x')->read_response->{status}, 503, 'a key that failed may be used again');
$proxy->refuse(0);
wait_until('the store is back', sub { with_key('three', 'x')->read_response->{status} =~ /^20[01]$/ });
is(with_key('three', 'x')->read_response->{status}, 200, 'and is stored in the end');

# Nor what the store refused: the key is not kept of what was not done.
my $was = $store->stored;
$store->execute('CONFIG', 'SET', 'maxmemory', 1);
is(with_key('four', 'x')->read_response->{status}, 503, 'a store that is full takes nothing') for 1, 2;
$store->execute('CONFIG', 'SET', 'maxmemory', 0);
$again = with_key('four', 'x')->read_response;
is($again->{status}, 201, 'once it has room it is the first time');
is($again->{headers}{'idempotency-replayed'}, undef, 'and not told to be a repeat');
is(with_key('four', 'x', relay => $second)->read_response->{status}, 200, 'then it is one');
is($store->stored, $was + 1, 'of what was stored once');

# A nack without a WebSocket.
my $stream = Clairon::Test::EventStream->open($relay, 'u1');
$stream->wait_message('connected');
my $id = http(POST => '/v1/notifications', body => to('later', ack_required => JSON::true))->{json}{id};
my $note = $stream->next_notification;
$note = $stream->next_notification until $note->{metadata}{id} eq $id;
sub wait_s { my ($s, $us) = @{ $store->execute('TIME') }; return (($store->execute('ZSCORE', $store->of($id, 'due'), "$id:u1") // 0) - $s * 1000 - $us / 1000) / 1000 }
wait_until('its showing is reported', sub { wait_s() > 0 });
is(http(POST => '/v1/nack', sub => 'mallory', body => { ids => [$id], delay => 500_000 })->{status}, 204, 'a nack of what is another\'s is taken');
is(http(POST => '/v1/nack', sub => 'u1', body => { ids => [$id], delay => 300_000 })->{status}, 204, 'a nack is taken');
wait_until('it is put off', sub { wait_s() > 290 });
cmp_ok(wait_s(), '<=', 300.001, 'by what its own user asked');
is(http(POST => '/v1/nack', sub => 'u1', relay => $second, body => { ids => [ uc $id ] })->{status}, 204, 'on another relay, without a delay');
my $life = http(GET => "/v1/notifications/$id")->{json};
is_deeply($life->{waiting}, ['u1'], 'it is still waited for');
my $soon = http(POST => '/v1/notifications', body => to('soon', ack_required => JSON::true))->{json}{id};
$note = $stream->next_notification until $note->{metadata}{id} eq $soon;
wait_until('its showing is reported', sub { $store->execute('ZSCORE', $store->of($soon, 'due'), "$soon:u1") });
is(http(POST => '/v1/nack', sub => 'u1', body => { ids => [$soon], delay => 0 })->{status}, 204, 'a nack for soon');
$note = $stream->next_notification;
is_deeply([ $note->{metadata}{id}, $note->{routing}{retry}{attempts} ], [ $soon, 1 ], 'and it comes again, long before the ack time-out');
is(http(POST => '/v1/ack', sub => 'u1', body => { ids => [ $id, $soon ] })->{status}, 204, 'both are acked');
wait_until('nothing waits', sub { $store->pending == 0 });

# What is wrong with it is named.
for (
    [ '',  qr/body must be/ ], [ '{}', qr/body must be/ ], [ '[]', qr/body must be/ ], [ "{\"ids\":[\"$id\"],\"more\":1}", qr/body must be/ ],
    [ '{"ids":[]}', qr/"ids"/ ], [ '{"ids":["x"]}', qr/"ids".*index 0/ ], [ "{\"ids\":[\"$id\"],\"delay\":-1}", qr/"delay"/ ],
    [ "{\"ids\":[\"$id\"],\"delay\":\"1\"}", qr/"delay"/ ], [ "{\"ids\":[\"$id\"],\"delay\":1.5}", qr/"delay"/ ],
    [ "{\"ids\":[\"$id\"],\"ids\":[\"$id\"]}", qr/body must be/ ])
{
    my $answer = http(POST => '/v1/nack', sub => 'u1', body => $_->[0]);
    is($answer->{status}, 400, "$_->[0] is refused");
    like($answer->{json}{detail}, $_->[1], 'with what is wrong');
}
is(http(POST => '/v1/nack', sub => 'u1', body => { ids => [$id], delay => 86400001 })->{status}, 204, 'more than the cap is no fault');
is(http(GET => '/v1/nack', sub => 'u1')->{status}, 405, 'a nack is a POST');
$store->stop;
wait_until('the store is missed', sub { http(POST => '/v1/nack', sub => 'u1', body => { ids => [$id] })->{status} == 503 });
pass('without the store a nack is not taken');
$store->start;

# The end of a relay with a request under way.
wait_until('the store is back', sub { http(POST => '/v1/notifications', body => to('x'))->{status} == 201 });
is(with_key('three', 'x')->read_response->{status}, 200, 'a store that was away has forgotten nothing');
$store->execute('FLUSHALL');
wait_until('an emptied store knows no key, and nor does the relay', sub { with_key('three', 'x')->read_response->{status} == 201 });
$proxy->freeze;
my ($answer, $last) = answered_first(with_key('last', 'x'), with_key('last', 'x'));
is($answer->{status}, 409, 'one is under way');
is($relay->stop, 0, 'SIGTERM ends the relay in good order all the same');

done_testing();

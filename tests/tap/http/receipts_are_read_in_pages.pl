# Tests GET /v1/receipts: pages in order over all shards, a cursor that every relay accepts, the emitters that a token may
# read, invalid arguments, and replicas.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use JSON ();
use Test::More;

my $pg    = Clairon::Test::postgresql('main');
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store);
my $other = Clairon::Test::relay($pg, $store, conf => { 'relay.roles' => 'gate' });

sub get { my ($from, $query, %claims) = @_;
    return Clairon::Test::RawSocket->new($from)->request(GET => "/v1/receipts$query", Authorization => 'Bearer ' . token(sub => 'op', %claims)) }
sub page { my ($from, $query, %claims) = @_; return JSON::decode_json(get($from, $query, %claims)->{body}) }
my %ADMIN = (admin => JSON::true);

my $empty = page($relay, '', %ADMIN);
is_deeply($empty->{receipts}, [], 'at first there is no receipt');
my $users = join ',', map { "u$_" } 1 .. 40;
$pg->safe_psql('postgres', qq{SELECT clairon.notify('USER', ARRAY[u], '{}', ack_required => true, receipts => 'user', emitter => CASE WHEN u LIKE '%0' THEN 'op' ELSE '"x' END)
    FROM unnest('{$users}'::text[]) AS u});
wait_until('the notifications are stored', sub { $store->pending == 40 });
$relay->run('drop', '--source', 'notify');
my @all = map { JSON::decode_json($_->{data}) } map { $store->entries($_) } $store->keys('receipts');
is(scalar(@all), 80, 'each notification has a receipt, and each of its pairs');

my ($cursor, $from, @read) = ($empty->{next}, $relay);
while (my $page = page($from, "?after=$cursor&limit=7", %ADMIN))
{
    my @page = @{ $page->{receipts} } or last;
    push @read, @page;
    cmp_ok(scalar(@page), '<=', 7, 'a page has at most limit receipts') if @page > 7;
    $cursor = $page->{next};
    $from = $from == $relay ? $other : $relay;
}
is_deeply([ sort map { $_->{id} } @read ], [ sort map { $_->{id} } @all ], 'pages over two relays have each receipt once');
# Several shards: a step that ends many pairs has one time.
is_deeply([ map { $_->{at} } @read ], [ sort map { $_->{at} } @read ], 'in the order of their times') if $store->shards == 1;
is(scalar(@{ page($relay, '', %ADMIN)->{receipts} }), 80, 'without arguments a page has up to 100 receipts');
is_deeply(page($relay, "?after=$cursor", %ADMIN), { receipts => [], next => $cursor }, 'the last cursor remains valid');
my $own = page($relay, '?limit=3', publish => JSON::true);
is_deeply([ map { $_->{emitter} } @{ $own->{receipts} } ], [ ('op') x 3 ], 'a token with publish reads the receipts of its emitter');
is(scalar(@{ page($relay, "?after=$own->{next}", publish => JSON::true)->{receipts} }), 5, 'in pages too');
is(scalar(@{ page($relay, '', sub => '"x', publish => JSON::true)->{receipts} }), 72, 'names are compared, not their JSON');

is(get($relay, '')->{status}, 403, 'other tokens may not read receipts');
for my $bad ([ 'limit=0', 'limit' ], [ 'limit=1001', 'limit' ], [ 'limit=x', 'limit' ], [ 'limit=', 'limit' ], [ 'limit=-1', 'limit' ], [ 'limit=99999999999', 'limit' ],
    map { [ "after=$_", 'after' ] } 'x', '1', '1-', '1-1x', '1-1_', '1-' . '1' x 30, '9' x 1000, join '_', ('1-1') x 17)
{
    my $response = get($relay, "?$bad->[0]", %ADMIN);
    is($response->{status}, 400, substr($bad->[0], 0, 30) . ' is rejected');
    like($response->{body}, qr/\b$bad->[1]\b/, 'the error names the argument');
}
is(Clairon::Test::RawSocket->new($relay)->request(GET => '/v1/receipts')->{status}, 401, 'a token is required');

# Replicas: a receipt that no replica has is not read.
my $lonely = Clairon::Test::relay($pg, $store, conf => { 'relay.roles' => 'gate', 'store.min_replicas' => 1 });
is(get($lonely, '', %ADMIN)->{status}, 503, 'receipts that no replica has are not read');

# Trimming by age and by size.
my $pages = 0;
sub trim { my ($key, $age, $bytes) = @_; return $store->execute('EVAL', Clairon::Test::script_text('trim'), 1, $key =~ s/receipts$/stream/r, $key =~ s/:receipts$//r, 3_600_000, $age, $bytes) }
for my $key ($store->keys('receipts'))
{
    my $count = $store->execute('XLEN', $key) or next;
    is(trim($key, 3_600_000, 1_000_000)->[2], 0, 'receipts within the limits are kept');
    my $half = int($store->execute('MEMORY', 'USAGE', $key, 'SAMPLES', 0) / 2);
    cmp_ok(trim($key, 3_600_000, $half)->[2], '>', 0, 'the oldest receipts beyond the bytes are removed');
    cmp_ok($store->execute('XLEN', $key), '>', 0, 'but not all') if $count > 1;
    select undef, undef, undef, 0.01;
    trim($key, 1, 1_000_000);
    is($store->execute('XLEN', $key), 0, 'receipts beyond the retention are removed');
}

done_testing();

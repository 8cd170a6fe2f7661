# Tests that GET /v1/rows with the cursor of an SSE stream returns only rows that contain the changes before the cursor,
# also on a relay that has not read these changes yet.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::EventStream;
use Clairon::Test::StubRows;
use JSON ();
use Test::More;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner')});
my $store  = Clairon::Test::store();
my $stub   = Clairon::Test::StubRows->new($pg);
my $proxy  = Clairon::Test::proxy($store->{socket});
my $first  = Clairon::Test::relay($pg, $store);
my $second = Clairon::Test::relay(undef, $store, roles => 'gate',
    conf => { 'store.url' => $proxy->url('redis'), 'rows.conninfo' => $pg->connstr('postgres') . ' user=relay', 'rows.timeout' => '1s' });
$stub->set('t');

sub rows
{
    my ($query) = @_;
    my ($status, $body) = $second->get("/v1/rows?source=t$query", Authorization => 'Bearer ' . token(sub => 'u1'));
    my $reply = JSON::decode_json($body);
    return join ' ', $status, $reply->{snapshot} // $reply->{code} // ($reply->{ok} ? 'ok' : 'too old');
}

# Repeats a request that exceeded rows.timeout on a busy machine.
sub rows_in_time { my ($query) = @_; return wait_until('rows are read in time', sub { my $reply = rows($query); $reply ne '503 111' && $reply }) }

is(rows_in_time('') =~ s/ .*//r, 200, 'the second relay returns rows');
my $stream = Clairon::Test::EventStream->open($first, 'u1', ':path' => '/v1/sse');
$stream->wait_message('connected');
$proxy->freeze;
my $x = $pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1') RETURNING pg_current_xact_id()});
$stream->wait_message('msg');
my ($without, $with) = ("$x:@{[ $x + 1 ]}:$x", "@{[ $x + 1 ]}:@{[ $x + 1 ]}:");
$stub->set('t', snapshot => $without);
is(rows("&pos=$stream->{id}"), '503 111', 'rows without a change before the cursor are not returned');
is(rows("&pos=$stream->{id}&snapshot=$without"), '200 too old', 'a snapshot without the change is too old');
is(rows_in_time($_), "200 $without",
    'without a valid cursor of this store, rows without the change are returned')
    for '', '&pos=nonsense', '&pos=00ff.1-1', '&pos=' . 'x' x 600;
$proxy->thaw;
wait_until('the second relay has read the change', sub { $second->metric('clairon_hub_notifications_total') >= 1 });
is(rows("&pos=$stream->{id}"), '503 111',
    'rows without the change are not returned after the second relay has read the change');
$stub->set('t', snapshot => $with);
is(rows_in_time("&pos=$stream->{id}"), "200 $with", 'rows with the change are returned');
is(rows("&pos=$stream->{id}&snapshot=$with"), '200 ok', 'a snapshot with the change is new enough');

done_testing();

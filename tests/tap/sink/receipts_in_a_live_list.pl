# Tests that a rule on clairon.receipt shows each sender how the notifications ended, and causes no further receipts.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::Receipts;
use JSON ();
use Test::More;

my $pg       = Clairon::Test::postgresql('main');
my $store    = Clairon::Test::store();
my $receipts = Clairon::Test::Receipts->new($pg, $store);
my $relay    = Clairon::Test::relay($pg, $store, conf => { 'receipts.sql' => 'true' });
sub sql { return $pg->safe_psql('postgres', $_[0]) }

sql(q{SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', live => true)});
my ($status, undef, $error) = $pg->psql('postgres', q{SELECT clairon.watch('clairon.receipt', 'USER', 'emitter', name => 'acks', ack_required => true)});
like($error, qr/parameter "ack_required" must be false for relation clairon.receipt/, 'a rule on the table must not require acknowledgements');
sql(q{INSERT INTO clairon.receipt VALUES (gen_random_uuid(), 'u9', 'acked', 1, now(), now(), 0, 'teacher', 's', 't')});

my $teacher = $relay->client('teacher');
my $other   = $relay->client('other');
my ($added) = $receipts->add({ user_id => 'pupil', emitter => 'teacher' });
my $message = $teacher->wait_for(sub { $_[0]{t} eq 'msg' && ($_[0]{n}{payload}{after}{user_id} // '') eq 'pupil' });
is($message->{n}{payload}{after}{outcome}, 'acked', 'the sender receives the receipt');
is($message->{n}{metadata}{operation}, 'create', 'as a created row');
$receipts->add({ user_id => 'own', emitter => 'other' });
$other->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{payload}{after}{user_id} eq 'own' });
ok(!(grep { $_->{payload}{after}{user_id} eq 'pupil' } $other->notifications), 'other senders do not receive it');

my (undef, $body) = $relay->get('/v1/rows?source=clairon.receipt', Authorization => 'Bearer ' . token(sub => 'teacher'));
is_deeply([ sort map { $_->{user_id} } @{ JSON::decode_json($body)->{rows} } ], [qw(pupil u9)], 'the sender reads the receipts');
is($store->execute('XLEN', $store->shared('receipts')), 2, 'no receipt causes another one');

# Pruning, and privileges.
sql(q{UPDATE clairon.receipt SET at = now() - interval '2 days' WHERE user_id = 'u9'});
is(sql(q{SELECT clairon.prune_receipts('1 day')}), 1, 'old receipts are deleted');
$teacher->wait_for(sub { $_[0]{t} eq 'msg' && $_[0]{n}{metadata}{operation} eq 'delete' });
pass('the sender is informed of the deletion');
done_testing();

# Tests that the SQL reference page is complete: it lists each parameter with its default, and its examples run.
use strict;
use warnings;

use Clairon::Test qw(top);
use JSON ();
use PostgreSQL::Test::Utils qw(slurp_file);
use Test::More;

my $pg   = Clairon::Test::postgresql('main');
my $page = slurp_file(top() . '/sql/README.md');

sub sql { return $pg->safe_psql('postgres', $_[0]) }

# Returns [ name, default in SQL ] for each parameter.
sub parameters
{
    my ($function) = @_;
    my $all = sql("SELECT pg_get_function_arguments('clairon.$function'::regproc)");
    return map { /^(\w+)(?:.* DEFAULT ([^:]*))?/ ? [ $1, $2 // '' ] : () } split /, /, $all;
}

my %documented = $page =~ /^\| `(\w+)` \| (.*?) \|/mg;
my @watch = parameters('watch');
is_deeply([ grep { !exists $documented{$_} } map { $_->[0] } @watch ], [], 'each parameter of watch is documented');
for my $one (grep { $_->[1] ne '' && $_->[1] ne 'NULL' } @watch)
{
    is($documented{ $one->[0] }, "`$one->[1]`", "the page contains the default of $one->[0]");
}
my ($notify) = $page =~ /^(## Send a notification.*?)^## /ms;
is_deeply([ grep { $notify !~ /`$_`/ && $_ ne 'audience' } map { $_->[0] } parameters('notify') ], [],
    'each parameter of notify is documented');

my ($signatures) = $page =~ /^## Functions\n\n```\n(.*?)^```/ms;
$signatures =~ s/\n +/ /g;
my $public = sql(q{SELECT format('%s(%s) RETURNS %s', oid::regproc, regexp_replace(pg_get_function_arguments(oid), '::[a-z]+(\[\])?', '', 'g'),
        pg_get_function_result(oid))
    FROM pg_proc WHERE pronamespace = 'clairon'::regnamespace AND obj_description(oid, 'pg_proc') NOT LIKE 'internal%'});
is(join("\n", sort split /\n/, $signatures), join("\n", sort split /\n/, $public), 'the page contains the signature of each public function');

# Each view and function that other roles may use is documented.
my $others = sql(q{SELECT string_agg(DISTINCT name, ' ' ORDER BY name) FROM (
    SELECT proname, proacl, proowner, 'f'::"char" FROM pg_proc WHERE pronamespace = 'clairon'::regnamespace
    UNION ALL SELECT relname, relacl, relowner, 'r' FROM pg_class
    WHERE relnamespace = 'clairon'::regnamespace AND relkind IN ('r', 'v')) AS t (name, acl, owner, kind),
    aclexplode(coalesce(acl, acldefault(kind, owner))) AS granted
    WHERE grantee <> owner AND name NOT IN ('denials', 'doctor_hanging', 'doctor_standby', 'report_denials', 'utf8', 'rule')});
is_deeply([ grep { $page !~ /\bclairon\.$_\b/ } split / /, $others ], [], "all public objects are documented: $others");

my @examples = $page =~ /^```sql\n(.*?)^```$/msg;
cmp_ok(scalar(@examples), '>', 5, 'the page contains examples');
sql("SELECT pg_create_logical_replication_slot('s', 'clairon')");
$pg->psql('postgres', join('', @examples), on_error_stop => 1, on_error_die => 1, stderr => \my $notices);
my ($cutoff) = $notices =~ /NOTICE:  deleted 0 keys created before (.*)/;
is(sql("SELECT now() - '$cutoff' BETWEEN '30 days' AND '31 days'"), 't', 'prune reports the time before which it deletes keys');
sql(q{INSERT INTO assignments VALUES (1, 'u1', '{t1,t2}', 'Portfolio', 'assigned');
    UPDATE assignments SET status = 'graded'});
my @notifications = map { JSON::decode_json($_) } split /\n/,
  sql(q{SELECT data FROM pg_logical_slot_get_changes('s', NULL, NULL)});
is_deeply(
    [ map { "$_->{metadata}{source} $_->{metadata}{operation} to @{ $_->{routing}{audience}{targets} }" } @notifications ],
    [
        'notify notify to u1 u2',
        'notify notify to admin',
        'assignments create to u1',
        'assignments update to u1',
        'assignments create to t1 t2'
    ],
    'the examples run with the documented results');
is(sql(q{SET ROLE my_app; SELECT clairon.once('order', '7')}), 'f', 'the examples run as the role that they create');

done_testing();
